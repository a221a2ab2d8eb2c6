import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Failure } from "../failure/failure.ts";
import { silentLogger } from "../logging/logger.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { answerDomain } from "./define-domain.ts";
import { domainHookService } from "./hook-services.ts";

interface Provocation {
  readonly nic?: object;
  readonly network?: object;
  readonly spec?: object;
  readonly annotation?: unknown;
  readonly status?: object;
  readonly domain?: string | Buffer;
  /** network-info's text, or one entry's keys. */
  readonly info?: string | object;
  readonly path?: string;
  /** Text of a DRA driver's metadata. */
  readonly metadata?: string;
  readonly vmi?: string | Buffer;
  readonly more?: boolean;
  readonly before?: () => Promise<void>;
}

let root: string;
const provoked = new Set<string>();

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-err-"));
});
afterEach(() => rm(root, { recursive: true }));

interface Row {
  readonly code: string;
  readonly words: string;
  readonly pattern: RegExp;
}

async function documented(): Promise<Row[]> {
  const text = await readFile(join(import.meta.dirname, "../../docs/sidecar.md"), "utf8");
  const rows = text.slice(text.indexOf("## Errors")).matchAll(/^\| `?([a-z-]+)`? \| (.+?) \| .+ \| .+ \|$/gm);
  return [...rows].flatMap(([, code = "", words = ""]) =>
    code === "code" || code.startsWith("-") ? [] : [{ code, words, pattern: patternOf(words) }],
  );
}

function patternOf(words: string): RegExp {
  const escaped = words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replace("`key`", "[\\w.]+").replaceAll("…", ".+")}$`, "s");
}

const info = (keys: object = {}) => {
  const path = join("/var/run/vhostuser/sockets", hashedPodInterfaceName("blue"), "vhost.sock");
  const deviceInfo = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
  return { network: "blue", deviceInfo, ...keys };
};
const withDevice = (keys: object) => info({ deviceInfo: { ...info().deviceInfo, ...keys } });
const CLAIMED = {
  network: { resourceClaim: { claimName: "net", requestName: "port" } },
  spec: { resourceClaims: [{ name: "net" }] },
};
const metadata = (devices: readonly object[]) =>
  JSON.stringify({
    apiVersion: "metadata.resource.k8s.io/v1alpha1",
    requests: [{ name: "port", devices }],
  });

async function failureOf(given: Provocation): Promise<Failure> {
  const names = given.more === true ? ["blue", "red"] : ["blue"];
  const vmi = {
    metadata: {
      name: "router",
      namespace: "tests",
      ...(given.annotation === undefined
        ? {}
        : { annotations: { "vhostuser/interfaces": JSON.stringify(given.annotation) } }),
    },
    spec: {
      domain: {
        devices: {
          interfaces: names.map((name) => ({ name, binding: { name: "vhostuser" }, ...given.nic })),
        },
      },
      networks: names.map((name) => ({ name, ...(given.network ?? { multus: { networkName: name } }) })),
      ...given.spec,
    },
    status: given.status,
  };
  const entries = typeof given.info === "object" ? given.info : withPath(given.path);
  const both = names.map((network) => ({ ...entries, network }));
  const file = join(root, "network-info");
  await given.before?.();
  await writeFile(
    file,
    typeof given.info === "string" ? given.info : JSON.stringify({ interfaces: both }),
  ).catch(() => undefined);
  if (given.metadata !== undefined) {
    const directory = join(root, "resourceclaimtemplates/net/port");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "driver.example-metadata.json"), given.metadata);
  }
  const request = {
    domainXML: Buffer.from(given.domain ?? "<domain><devices/></domain>"),
    vmi: Buffer.from(given.vmi ?? JSON.stringify(vmi)),
  };
  const options = {
    binding: undefined,
    links: [{ here: join(root, "links"), inCompute: "/var/run/links" }] as const,
    networkInfo: { file, budgetMs: 0 },
    metadataRoot: root,
    socketRoots: ["/var/run"],
    logger: silentLogger,
  };
  const call = { signal: new AbortController().signal, deadline: Number.POSITIVE_INFINITY };
  return answerDomain(request, options, call).then(
    () => {
      throw new Error("it was no error");
    },
    (error: unknown) => (error instanceof Failure ? error : Promise.reject(error)),
  );
}

function withPath(path: string | undefined): object {
  return path === undefined ? info() : withDevice({ "vhost-user": { mode: "server", path } });
}

const DOMAIN = (inner: string) => `<domain>${inner}<devices/></domain>`;
const NIC = "<interface><alias name='ua-blue'/></interface>";

const CASES: Readonly<Record<string, Provocation>> = {
  "no network-info": { info: "" },
  "network-info of others": { info: '{"interfaces":[]}' },
  "another binding": { nic: { binding: { name: "other" } } },
  "no network": { spec: { networks: [] } },
  "another model": { nic: { model: "e1000e" } },
  "a wrong MAC": { nic: { macAddress: "x" } },
  "a wrong PCI address": { nic: { pciAddress: "x" } },
  "too many queues": { annotation: { blue: { queues: 2 } } },
  "an annotation for an unknown interface": { annotation: { green: {} } },
  "an IOMMU that can't be": { annotation: { blue: { iommu: true } }, spec: { architecture: "s390x" } },
  "an unknown claim": { network: CLAIMED.network },
  "a claim's wrong name": {
    ...CLAIMED,
    spec: { resourceClaims: [{ name: "net", resourceClaimName: "../x" }] },
  },
  "a wrong pod interface": { status: { interfaces: [{ name: "blue", podInterfaceName: "a/b" }] } },
  "private memory": { domain: DOMAIN("<memoryBacking><access mode='private'/></memoryBacking>") },
  "the kernel's I/O APIC": {
    domain: DOMAIN("<features><ioapic driver='kvm'/></features>"),
    annotation: { blue: { iommu: true } },
  },
  "the interface twice": { domain: `<domain><devices>${NIC}${NIC}</devices></domain>` },
  "no devices": { domain: "<domain/>" },
  "no XML": { domain: "x" },
  "too much XML": { domain: DOMAIN("<a/>".repeat(90_000)) },
  "a domain that is no text": { domain: Buffer.from([0xff]) },
  "a VMI that is no text": { vmi: Buffer.from([0xff]) },
  "a VMI that is no JSON": { vmi: "x" },
  "a VMI that is too much": { vmi: `[${"1,".repeat(60_000)}1]` },
  "a VMI that is too deep": { vmi: "[".repeat(200) },
  "a VMI without a spec": { vmi: '{"metadata":{"name":"x"}}' },
  "network-info that is no JSON": { info: "{" },
  "no device-info": { info: info({ deviceInfo: undefined }) },
  "device-info of SR-IOV": { info: info({ deviceInfo: { type: "pci" } }) },
  "a switch as server": { info: withDevice({ "vhost-user": { mode: "client", path: "/var/run/x" } }) },
  "device-info without a path": { info: withDevice({ "vhost-user": { mode: "server" } }) },
  "a wrong MAC of CNI": { info: info({ mac: "x" }) },
  "a wrong MTU of CNI": { info: info({ mtu: 1 }) },
  "one socket for two": { more: true, path: "/var/run/a/vhost.sock" },
  "no metadata": CLAIMED,
  "unknown metadata": { ...CLAIMED, metadata: "{}" },
  "no device in the metadata": { ...CLAIMED, metadata: metadata([]) },
  "a device without socket": { ...CLAIMED, metadata: metadata([{ driver: "d", name: "n" }]) },
  "network-info that is a directory": {
    before: () => mkdir(join(root, "network-info")).then(() => undefined),
  },
  "network-info that is too large": { info: " ".repeat(2_000_000) },
  "a path that climbs": { path: "/var/run/../x" },
  "a path elsewhere": { path: "/etc/x/vhost.sock" },
  "a path of KubeVirt's": { path: "/var/run/kubevirt-private/vhost.sock" },
  "a path that is too long": { path: `/var/run/${"x".repeat(100)}/vhost.sock` },
  "a link that can't be": {
    path: "/var/run/foreign/x/vhost.sock",
    before: () =>
      mkdir(join(root, "links", hashedPodInterfaceName("blue"), "x"), { recursive: true }).then(
        () => undefined,
      ),
  },
};

async function expectDocumented(failure: Pick<Failure, "code" | "what" | "fix">): Promise<void> {
  expect(failure.fix, "it must say what to do").toBeDefined();
  const rows = (await documented()).filter(
    ({ code, pattern }) => (code === "any" || code === failure.code) && pattern.test(failure.what),
  );
  expect(rows, `${failure.code}: ${failure.what}`).toHaveLength(1);
  for (const { code, words } of rows) provoked.add(`${code}: ${words}`);
}

describe("what a VM's events may say", () => {
  it.each(Object.entries(CASES))("is documented for %s", async (_name, given) => {
    await expectDocumented(await failureOf(given));
  });

  it("is documented for another hypervisor", async () => {
    const { implementation } = domainHookService({
      defineDomain: () => Promise.reject(new Error("not called")),
    });
    const mutate = implementation["MutateDomain"] as unknown as (
      call: object,
      answer: (error: { readonly details: string }) => void,
    ) => void;
    const request = {
      domain_type: "other",
      domain: Buffer.alloc(0),
      vmi: Buffer.alloc(0),
      sidecar_context: null,
    };
    const { details } = await new Promise<{ details: string }>((resolve) => mutate({ request }, resolve));
    const [, what = "", fix] = /^invalid-request: (.+) \(MutateDomain\); (.+)$/.exec(details) ?? [];
    await expectDocumented({ code: "invalid-request", what, fix });
  });

  afterAll(async () => {
    const rows = (await documented()).map(({ code, words }) => `${code}: ${words}`);
    expect(rows.filter((row) => !provoked.has(row))).toEqual([]);
  });
});
