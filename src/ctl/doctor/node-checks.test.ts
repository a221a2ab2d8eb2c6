import { appendFile, chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../../test/stand-in/dataplane/memory-dataplane.ts";
import { checkedHost } from "../../../test/stand-in/doctor/checked-host.ts";
import { writeJournal } from "../../../test/stand-in/records/journal-files.ts";
import { nodeStatus } from "../../../test/stand-in/records/traced-interface.ts";
import { parseConfig } from "../../config/load.ts";
import { silentLogger } from "../../logging/logger.ts";
import { serveHttp } from "../../observe/http-server.ts";
import type { AllocationRecord } from "../../records/allocation-record.ts";
import { openRecords } from "../../records/records.ts";
import { daemonCheck, leftoversCheck, recordsCheck, switchCheck } from "./daemon-checks.ts";
import { tried } from "./doctor.ts";
import { cniCheck, kubeletCheck, numaCheck, rootCheck } from "./host-checks.ts";
import type { CheckedHost, CheckedNode, Finding, NodeCheck } from "./node-check.ts";
import { permissionsCheck, selinuxCheck } from "./permission-checks.ts";

const ID = "0123456789abcdef";
const LABEL = "system_u:object_r:container_file_t:s0";
const uid = process.getuid?.() ?? 0;
const gid = process.getgid?.() ?? 0;

let directory: string;
let host: CheckedHost;
let dataplane: MemoryDataplane;
const servers: Server[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-doctor-"));
  for (const name of ["root", "proc/self", "sys"]) await mkdir(join(directory, name), { recursive: true });
  await writeFile(join(directory, "proc/filesystems"), "nodev\ttmpfs\n");
  dataplane = new MemoryDataplane();
  host = checkedHost(directory);
});
afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await rm(directory, { recursive: true });
});

function node(pool: object = {}, keys: object = {}): CheckedNode {
  const at = (name: string) => join(directory, name);
  const text = JSON.stringify({
    node: "worker-1",
    root: at("root"),
    recordsDirectory: at("records"),
    cniSocket: at("cni.sock"),
    kubelet: { devicePlugins: at("plugins"), podResources: at("resources.sock") },
    pools: { sockets: { capacity: 4, dataplane: { type: "ovs-dpdk", bridge: "br0" }, ...pool } },
    ...keys,
  });
  const config = parseConfig(text, "test");
  return { config, host, switches: config.pools.map((one) => ({ pool: one, dataplane })) };
}

const check = (one: NodeCheck, of = node()) => tried(() => one(of, AbortSignal.timeout(5_000)));
/** What is not well, each as `verdict: what`; every one of these has a cure, but for what was skipped. */
function findingsOf(findings: readonly Finding[]): string[] {
  for (const { verdict, cure } of findings) {
    if (verdict === "problem" || verdict === "warning") expect(cure).toMatch(/\w{3}/);
  }
  return findings.filter(({ verdict }) => verdict !== "ok").map(({ verdict, what }) => `${verdict}: ${what}`);
}
function listen(path: string): Promise<void> {
  const server = createServer();
  servers.push(server);
  return new Promise((resolve) => server.listen(path, resolve));
}
async function allocate(changes: Partial<AllocationRecord> = {}): Promise<void> {
  const { allocations } = await openRecords(join(directory, "records"));
  await allocations.put({
    ...{ id: ID, pool: "sockets" },
    holder: { kind: "device-plugin", resource: "vhostuser/sockets", devices: ["sockets-00000"] },
    ...{ ownership: { owner: uid, group: gid, mode: 0o2770 }, createdAt: 1, sequence: 1 },
    ...changes,
  });
  const path = join(directory, "root", ID, "sockets-00000");
  await mkdir(path, { recursive: true });
  await chmod(path, 0o2770);
  await chmod(join(directory, "root", ID), 0o755);
}

describe("doctor checks the node", () => {
  const mountInfo = (flags: string) =>
    writeFile(
      join(directory, "proc/self/mountinfo"),
      `36 1 0:32 / ${directory}/root rw,${flags} - tmpfs vhostuser rw,size=16384k,nr_inodes=0\n`,
    );

  it("root: its flags, one that lacks, none at all, and a root that is not there", async () => {
    await mountInfo("nosuid,nodev,noexec,nosymfollow");
    expect(findingsOf(await check(rootCheck))).toEqual([]);
    await mountInfo("nosuid,nodev,noexec");
    expect(findingsOf(await check(rootCheck))).toEqual([
      expect.stringMatching(/^problem: .*lacks nosymfollow/),
    ]);
    const insecure = node({}, { rootFileSystem: { allowInsecure: true } });
    expect(findingsOf(await check(rootCheck, insecure))).toEqual([
      expect.stringMatching(/^warning: .*lacks nosymfollow/),
    ]);
    await rm(join(directory, "root"), { recursive: true });
    expect(findingsOf(await check(rootCheck))).toEqual([expect.stringContaining("is not there")]);
    await mkdir(join(directory, "root"));
  });

  it("NUMA: nodes that pools name and the machine lacks", async () => {
    expect(findingsOf(await check(numaCheck))).toEqual([expect.stringContaining("skipped")]);
    for (const name of ["node0", "has_cpu"]) {
      await mkdir(join(directory, "sys/devices/system/node", name), { recursive: true });
    }
    for (const numaNode of ["auto", "none", 0]) {
      expect(findingsOf(await check(numaCheck, node({ numaNode })))).toEqual([]);
    }
    expect(findingsOf(await check(numaCheck, node({ numaNode: 1 })))).toEqual([
      "problem: pool sockets: this machine has no NUMA node 1",
    ]);
  });

  it("kubelet: both sockets, or which one does not answer", async () => {
    expect(findingsOf(await check(kubeletCheck))).toEqual([
      expect.stringMatching(/device plugins: .*\(ENOENT\)/),
      expect.stringMatching(/PodResources: .*\(ENOENT\)/),
    ]);
    await mkdir(join(directory, "plugins"));
    await listen(join(directory, "plugins/kubelet.sock"));
    await listen(join(directory, "resources.sock"));
    expect(findingsOf(await check(kubeletCheck))).toEqual([]);
  });

  it("CNI socket: served for root alone, open to others, not there", async () => {
    expect(findingsOf(await check(cniCheck))).toEqual([expect.stringContaining("does not answer (ENOENT)")]);
    const path = join(directory, "cni.sock");
    await listen(path);
    await chmod(path, 0o666);
    expect(findingsOf(await check(cniCheck))).toEqual([expect.stringContaining("mode 666")]);
    await chmod(path, 0o600);
    expect(findingsOf(await check(cniCheck))).toEqual(
      uid === 0 ? [] : [expect.stringContaining(`owner ${uid}`)],
    );
  });

  it("daemon: down, healthy, not registered, of another release, of another name, with a reconciler that is stuck", async () => {
    expect(findingsOf(await check(daemonCheck))).toEqual([
      expect.stringContaining("does not run on this node"),
    ]);
    let status = nodeStatus();
    const server = await serveHttp({
      ...{ socketPath: join(directory, "status.sock"), socketOption: "statusSocket" },
      pages: new Map([
        [
          "/v1/node",
          async () => ({ status: 200, contentType: "application/json", body: JSON.stringify(status) }),
        ],
      ]),
      logger: silentLogger,
    });
    try {
      expect(findingsOf(await check(daemonCheck))).toEqual([]);
      status = nodeStatus({
        node: "other",
        version: "0.2.0",
        at: 3_600_000,
        resources: [{ name: "vhostuser/sockets", registered: false, registrations: 0 }],
      });
      expect(findingsOf(await check(daemonCheck))).toEqual([
        expect.stringContaining("warning: the daemon calls this node other"),
        expect.stringContaining("warning: this program is of release 0.1.0"),
        expect.stringContaining("problem: not registered with kubelet: vhostuser/sockets"),
        expect.stringContaining("problem: the reconciler has not finished a pass for 57m"),
      ]);
      status = nodeStatus({ rootProblem: "the root was unmounted" });
      expect(findingsOf(await check(daemonCheck))).toEqual(["problem: the root was unmounted"]);
    } finally {
      await server.close();
    }
  });

  it("records: what cannot be read, and it touches nothing", async () => {
    expect(findingsOf(await check(recordsCheck))).toEqual([]);
    await allocate();
    const at = join(directory, "records/allocations");
    await appendFile(join(at, "journal"), "odd\nunfinished");
    await writeFile(join(at, "damaged"), "older\n");
    const before = await readFile(join(at, "journal"), "utf8");
    expect(findingsOf(await check(recordsCheck))).toEqual([
      expect.stringContaining("allocations/damaged: it was damaged at an earlier start"),
      expect.stringContaining("allocations/journal: its checksum is wrong"),
    ]);
    expect(await readFile(join(at, "journal"), "utf8")).toBe(before);
  });

  it("switch: ready, without the bridge, not answering", async () => {
    expect(findingsOf(await check(switchCheck))).toEqual([]);
    const other = node({ dataplane: { type: "vpp", bridge: "7" } });
    expect(findingsOf(await check(switchCheck, other))).toEqual(["problem: pool sockets: no bridge 7"]);
    dataplane.dead = true;
    expect(findingsOf(await check(switchCheck))).toEqual([
      "problem: pool sockets: the switch does not answer",
    ]);
  });

  it("switch: what a ready one does not offer is a warning", async () => {
    dataplane.probe = async () => ({ ready: true, limitations: ["no announcements: VPP 24.10 is too old"] });
    expect(findingsOf(await check(switchCheck))).toEqual([
      "warning: pool sockets: no announcements: VPP 24.10 is too old",
    ]);
  });

  it("leftovers: says why the ports of a switch cannot be listed", async () => {
    dataplane.listPorts = async () => Promise.reject(new Error("this VPP has no API message x"));
    expect(findingsOf(await check(leftoversCheck))).toEqual([
      "skipped: ports of pool sockets: this VPP has no API message x",
    ]);
  });

  describe("permissions:", () => {
    async function vswitchd(ids: string): Promise<void> {
      await mkdir(join(directory, "proc/77"), { recursive: true });
      await writeFile(join(directory, "proc/77/status"), `Name:\tovs-vswitchd\n${ids}\n`);
    }
    const pool = { directory: { owner: 107, group: 108 } };

    it("the switch's user may connect, or not, or cannot be seen", async () => {
      expect(findingsOf(await check(permissionsCheck, node(pool)))).toEqual([
        expect.stringContaining("skipped: no process of ovs-dpdk"),
      ]);
      await vswitchd("Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0");
      expect(findingsOf(await check(permissionsCheck, node(pool)))).toEqual([]);
      await vswitchd("Uid:\t64\t64\t64\t64\nGid:\t64\t64\t64\t64\nGroups:\t20 108 ");
      expect(findingsOf(await check(permissionsCheck, node(pool)))).toEqual([]);
      await vswitchd("Uid:\t64\t64\t64\t64\nGid:\t64\t64\t64\t64\nGroups:\t20");
      expect(findingsOf(await check(permissionsCheck, node(pool)))).toEqual([
        expect.stringMatching(
          /^problem: ovs-vswitchd \(pid 77, by its name alone\) runs with uid 64 and is not in group 108/,
        ),
      ]);
    });

    it("of two switches one may connect, which may be the pool's", async () => {
      await vswitchd("Uid:\t64\t64\t64\t64\nGid:\t64\t64\t64\t64\nGroups:\t20");
      await mkdir(join(directory, "proc/78"));
      await writeFile(
        join(directory, "proc/78/status"),
        "Name:\tovs-vswitchd\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n",
      );
      expect(findingsOf(await check(permissionsCheck, node(pool)))).toEqual([
        expect.stringMatching(/^warning: ovs-vswitchd \(pid 77, /),
      ]);
    });

    it("a directory that is gone, or not its pod's", async () => {
      await vswitchd("Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0");
      await allocate();
      expect(findingsOf(await check(permissionsCheck))).toEqual([]);
      await chmod(join(directory, "root", ID, "sockets-00000"), 0o700);
      expect(findingsOf(await check(permissionsCheck))).toEqual([expect.stringContaining("mode 0700")]);
      await rm(join(directory, "root", ID), { recursive: true });
      expect(findingsOf(await check(permissionsCheck))).toEqual([expect.stringContaining("is not there")]);
    });
  });

  it("SELinux: off, permissive, enforcing without a label, and labels that were changed", async () => {
    expect(findingsOf(await check(selinuxCheck))).toEqual([]);
    await writeFile(join(directory, "proc/filesystems"), "nodev\tselinuxfs\n");
    await mkdir(join(directory, "sys/fs/selinux"), { recursive: true });
    await writeFile(join(directory, "sys/fs/selinux/enforce"), "0");
    expect(findingsOf(await check(selinuxCheck))).toEqual([]);
    await writeFile(join(directory, "sys/fs/selinux/enforce"), "1");
    expect(findingsOf(await check(selinuxCheck))).toEqual([
      expect.stringContaining("pool sockets has no selinuxLabel"),
    ]);
    await allocate({ ownership: { owner: uid, group: gid, mode: 0o2770, selinuxLabel: LABEL } });
    const labelled = (label: string) => {
      const of = node({ directory: { selinuxLabel: LABEL } });
      return check(selinuxCheck, { ...of, host: { ...host, run: async () => `${label}\n` } });
    };
    expect(findingsOf(await labelled(LABEL))).toEqual([]);
    expect(findingsOf(await labelled("system_u:object_r:var_run_t:s0"))).toEqual([
      expect.stringContaining("sockets-00000 has the label system_u:object_r:var_run_t:s0"),
    ]);
  });

  it("leftovers: a port and a directory without a record", async () => {
    expect(findingsOf(await check(leftoversCheck))).toEqual([]);
    await allocate();
    expect(findingsOf(await check(leftoversCheck))).toEqual([]);
    await rm(join(directory, "root", ID), { recursive: true });
    await mkdir(join(directory, "root", "zzzzzzzzzzzzzzzz"));
    const owner = { podNamespace: "shop", podName: "old" } as never;
    dataplane.ports.set("vhu9", { name: "vhu9", bridge: "br0", owner } as never);
    expect(findingsOf(await check(leftoversCheck))).toEqual([
      "problem: port vhu9 on bridge br0 (pod shop/old) has no record",
      `problem: directory ${directory}/root/zzzzzzzzzzzzzzzz has no record`,
    ]);
  });

  it("records of a newer release cannot be checked", async () => {
    await writeJournal(join(directory, "records/ports"), 99);
    expect(findingsOf(await check(recordsCheck))).toEqual([
      expect.stringContaining("the journal has version 99"),
    ]);
  });

  it("leftovers: what is gone at the second read is not reported, and an unreachable switch is", async () => {
    const owner = { podNamespace: "shop", podName: "old" } as never;
    dataplane.ports.set("vhu9", { name: "vhu9", bridge: "br0", owner } as never);
    const list = dataplane.listPorts.bind(dataplane);
    dataplane.listPorts = async (signal) => {
      const ports = await list(signal);
      dataplane.ports.clear();
      return ports;
    };
    expect(findingsOf(await check(leftoversCheck))).toEqual([]);
    dataplane.dead = true;
    expect(findingsOf(await check(leftoversCheck))).toEqual([
      expect.stringContaining("skipped: ports of pool sockets"),
    ]);
  });
});
