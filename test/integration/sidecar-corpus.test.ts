import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Failure } from "../../src/failure/failure.ts";
import { defineDomain } from "../../src/sidecar/define-domain.ts";
import { parseVmi, type Vmi } from "../../src/sidecar/vmi.ts";
import { withoutSidecarEdits } from "../contract/sidecar-edits.ts";
import { startLibvirtNode } from "../lab/libvirt-node.ts";
import { startPod } from "../lab/pod.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { findLibvirtDomains } from "../machine/libvirt-domains.ts";
import { runProgram } from "../machine/run-program.ts";

/** A domain before and after the sidecar, as files. */
interface Pair {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

const SCHEMA = "/usr/share/libvirt/schemas/domain.rng";
/** What xmllint is given at once. */
const BATCH = 250;

/** Machines without PCI, and one whose buses are all taken: there libvirt can add no NIC of any kind. */
const NO_ROOM = /No PCI buses available|index must be larger than bus/;

let run: LabRun;
let pairs: Pair[];
/** Files that the sidecar takes for no XML. */
const malformed: string[] = [];

beforeAll(async () => {
  run = await openLabRun();
  pairs = await pairsOf(await findLibvirtDomains());
});
afterAll(() => run?.close());

/** Two interfaces, one of them with everything that an annotation can ask for. */
function vmi(iommu: boolean): Vmi {
  const settings = { v2: { rxQueueSize: 256, txQueueSize: 512, packed: true, iommu } };
  const names = ["v1", "v2"];
  const machine = {
    metadata: { name: "m", annotations: { "vhostuser/interfaces": JSON.stringify(settings) } },
    spec: {
      domain: {
        cpu: { cores: 4 },
        devices: {
          networkInterfaceMultiqueue: true,
          interfaces: names.map((name) => ({ name, binding: { name: "vhostuser" } })),
        },
      },
      networks: names.map((name) => ({ name, multus: { networkName: name } })),
    },
  };
  return parseVmi(JSON.stringify(machine), "vhostuser");
}

const socket = (name: string, mtu: number | undefined) =>
  [name, { path: `/var/run/${name}/vhost.sock`, mac: undefined, mtu }] as const;
const SOCKETS = new Map([socket("v1", undefined), socket("v2", 9000)]);

/** Those that libvirt itself calls domains, each through the sidecar; it may refuse memory that isn't shared. */
async function pairsOf(files: readonly string[]): Promise<Pair[]> {
  const directory = join(run.directory, "after");
  await mkdir(directory, { recursive: true });
  const found: Pair[] = [];
  for (const before of files) {
    const text = await readFile(before, "utf8");
    const isQ35 = /machine=['"]\w*-?q35/.test(text) && !text.includes("<ioapic") && !text.includes("<iommu");
    const answer = answerTo(text, vmi(isQ35), before);
    if (answer === undefined) continue;
    const after = join(directory, basename(before));
    await writeFile(after, answer);
    found.push({ name: basename(before), before, after });
  }
  return found;
}

function answerTo(text: string, guest: Vmi, file: string): string | undefined {
  try {
    return defineDomain(text, guest, SOCKETS);
  } catch (error) {
    if (error instanceof Failure && error.what.includes("malformed")) {
      malformed.push(file);
      return undefined;
    }
    if (error instanceof Failure && /memory that the switch can share|has no <devices>/.test(error.what)) {
      return undefined;
    }
    throw error;
  }
}

/** Names of those that fit libvirt's schema. */
async function validOf(files: readonly string[]): Promise<Set<string>> {
  const valid = new Set<string>();
  for (let at = 0; at < files.length; at += BATCH) {
    const batch = files.slice(at, at + BATCH);
    // It fails where one of them doesn't fit, and says of each on stderr whether it does.
    const command = `xmllint --noout --relaxng ${SCHEMA} "$@" 2>&1 || true`;
    const { stdout } = await runProgram("sh", ["-c", command, "sh", ...batch], { limitMs: 280_000 });
    for (const [, file = ""] of stdout.matchAll(/^(\S+) validates$/gm)) valid.add(basename(file));
  }
  return valid;
}

describe("libvirt's own test domains", () => {
  it("are many, and only some have memory that no switch can share", () => {
    expect(pairs.length).toBeGreaterThan(1000);
  });

  it("are refused as malformed only where libvirt's own parser refuses them", async () => {
    for (const file of malformed) await expect(runProgram("xmllint", ["--noout", file])).rejects.toThrow();
  });

  it("change in no byte that isn't ours, and not at all the second time", async () => {
    for (const { name, before, after } of pairs) {
      const [old, fresh] = [await readFile(before, "utf8"), await readFile(after, "utf8")];
      expect(withoutSidecarEdits(fresh, "v"), name).toBe(withoutSidecarEdits(old, "v"));
      expect(fresh.match(/<alias name="ua-v\d"/g), name).toHaveLength(2);
      const guest = vmi(fresh.includes('iommu="on" ats="on"'));
      expect(defineDomain(fresh, guest, SOCKETS), name).toBe(fresh);
    }
  });

  it("fit libvirt's schema afterwards where they did before", async () => {
    const before = await validOf(pairs.map((pair) => pair.before));
    const after = await validOf(pairs.map((pair) => pair.after));
    expect(before.size).toBeGreaterThan(1000);
    expect([...before].filter((name) => !after.has(name))).toEqual([]);
  });

  it("are accepted by libvirt afterwards where they were before", async () => {
    const node = await startLibvirtNode(await startPod(run, "corpus"), {
      mounts: [
        { hostPath: join(run.directory, "after"), containerPath: "/mnt/after" },
        { hostPath: join(pairs[0]?.before ?? "", ".."), containerPath: "/mnt/before", readOnly: true },
      ],
    });
    const accepted = async (which: "before" | "after", only: readonly Pair[]) => {
      const script = only.map((pair) => `echo ${pair.name}\ndefine ${pair[which]}\n`).join("");
      // Line by line, so that its words of success and of failure come in their order.
      const command = `stdbuf -oL virsh -c '${node.uri}' 2>&1`;
      const { stdout } = await runProgram("sh", ["-c", command], { input: script, limitMs: 280_000 });
      // virsh repeats its commands, too; a name alone on a line is what `echo` said.
      const [, ...parts] = stdout.split(/^(\S+\.xml)$/m);
      return new Map(
        parts.flatMap((name, index) => (index % 2 === 0 ? [[name, parts[index + 1] ?? ""]] : [])),
      );
    };
    const before = await accepted("before", pairs);
    const fine = pairs.filter(({ name }) => before.get(name)?.includes("defined from") === true);
    expect(fine.length).toBeGreaterThan(100);
    const after = await accepted("after", fine);
    const refused = fine.flatMap(({ name }) => {
      const words = after.get(name) ?? "no word";
      return words.includes("defined from") || NO_ROOM.test(words) ? [] : [`${name}: ${words}`];
    });
    expect(refused).toEqual([]);
  });
});
