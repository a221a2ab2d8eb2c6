import { describe, expect, it } from "vitest";
import { parseVmi, queuePairs } from "./vmi.ts";

interface Given {
  readonly interfaces?: readonly object[];
  readonly networks?: readonly object[];
  readonly spec?: object;
  readonly domain?: object;
  readonly devices?: object;
  readonly status?: object;
  /** Value of the annotation for interfaces. */
  readonly settings?: unknown;
}

/** A VMI with one interface of ours, `blue`, which the test changes. */
function vmi(given: Given = {}): string {
  return JSON.stringify({
    metadata: {
      name: "router",
      namespace: "tests",
      ...(given.settings === undefined
        ? {}
        : { annotations: { "vhostuser/interfaces": JSON.stringify(given.settings) } }),
    },
    spec: {
      domain: { devices: { interfaces: given.interfaces ?? [ours()], ...given.devices }, ...given.domain },
      networks: given.networks ?? [{ name: "blue", multus: { networkName: "blue-net" } }],
      ...given.spec,
    },
    ...(given.status === undefined ? {} : { status: given.status }),
  });
}

const ours = (extra: object = {}) => ({ name: "blue", binding: { name: "vhostuser" }, ...extra });
const first = (json: string) => parseVmi(json, "vhostuser").interfaces[0];

describe("parseVmi", () => {
  it("reads the interfaces of our binding in VMI order, except those being unplugged", () => {
    const names = ["default", "c", "a", "gone", "b"];
    const parsed = parseVmi(
      vmi({
        interfaces: [
          { name: "default", masquerade: {} },
          ours({ name: "c" }),
          { name: "a", binding: { name: "passt" } },
          ours({ name: "gone", state: "absent" }),
          ours({ name: "b", state: "down" }),
        ],
        networks: names.map((name) => ({ name, multus: { networkName: name } })),
      }),
      "vhostuser",
    );
    expect(parsed.order).toEqual(names);
    expect(parsed.interfaces.map(({ name, linkDown }) => [name, linkDown])).toEqual([
      ["c", false],
      ["b", true],
    ]);
    expect(parsed.unplugging).toBe(true);
  });

  it.each<[string, Given, string]>([
    ["the status", { status: { interfaces: [{ name: "blue", podInterfaceName: "net7" }] } }, "net7"],
    ["a hash of the network without a status", {}, "pod16477688c0e"],
    ["a hash where the status doesn't say", { status: { interfaces: [{ name: "blue" }] } }, "pod16477688c0e"],
    ["eth0 for the pod network", { networks: [{ name: "blue", pod: {} }] }, "eth0"],
    [
      "eth0 for Multus' default network",
      { networks: [{ name: "blue", multus: { networkName: "x", default: true } }] },
      "eth0",
    ],
    [
      "an ordinal where another interface has one",
      {
        networks: [
          { name: "red", multus: { networkName: "x" } },
          { name: "default", pod: {} },
          { name: "blue", multus: { networkName: "x" } },
        ],
        status: { interfaces: [{ name: "red", podInterfaceName: "net1" }] },
      },
      "net2",
    ],
  ])("names the pod interface by %s", (_name, given, expected) => {
    expect(first(vmi(given))?.podInterfaceName).toBe(expected);
  });

  it.each<[string, Given, string]>([
    ["nothing", {}, "virtio-non-transitional"],
    [
      "model virtio on arm64",
      { interfaces: [ours({ model: "virtio" })], spec: { architecture: "arm64" } },
      "virtio-non-transitional",
    ],
    ["useVirtioTransitional", { devices: { useVirtioTransitional: true } }, "virtio-transitional"],
    ["s390x", { spec: { architecture: "s390x" }, devices: { useVirtioTransitional: true } }, "virtio"],
    [
      "a virtio model in full",
      { interfaces: [ours({ model: "virtio-transitional" })] },
      "virtio-transitional",
    ],
  ])("gives the model for %s", (_name, given, model) => {
    expect(first(vmi(given))?.model).toBe(model);
  });

  it("reads address, MAC, boot order and ACPI index", () => {
    const extra = {
      pciAddress: "0000:8A:1f.7",
      macAddress: "02-AA-00-00-00-01",
      bootOrder: 2,
      acpiIndex: 101,
    };
    expect(first(vmi({ interfaces: [ours(extra)] }))).toMatchObject({
      pciAddress: { domain: "0x0000", bus: "0x8A", slot: "0x1f", function: "0x7" },
      mac: "02:aa:00:00:00:01",
      bootOrder: 2,
      acpiIndex: 101,
    });
  });

  it("asks for queues only where the VMI does, and reads amd64 and launch security", () => {
    const cpu = { cpu: { cores: 4 } };
    expect(first(vmi({ domain: cpu }))?.queues).toBeUndefined();
    expect(parseVmi(vmi({ domain: cpu }), "vhostuser")).toMatchObject({
      launchSecurity: false,
      romTuning: true,
    });
    const json = vmi({
      domain: { ...cpu, launchSecurity: {} },
      devices: { networkInterfaceMultiqueue: true },
      spec: { architecture: "arm64" },
    });
    expect(parseVmi(json, "vhostuser")).toMatchObject({ launchSecurity: true, romTuning: false });
    expect(first(json)?.queues).toBe(4);
  });

  it.each<[string, string, string]>([
    ["what is no JSON", "{", "not JSON"],
    ["a VMI without a domain", '{"metadata":{"name":"a"},"spec":{}}', "spec.domain"],
    ["an invalid boot order", vmi({ interfaces: [ours({ bootOrder: 0 })] }), "interfaces.0.bootOrder"],
    ["an interface without its network", vmi({ networks: [] }), 'no network is named "blue"'],
    ["a model without vhost-user", vmi({ interfaces: [ours({ model: "e1000e" })] }), '"e1000e"'],
    ["a multicast MAC", vmi({ interfaces: [ours({ macAddress: "01:00:00:00:00:01" })] }), "macAddress"],
    ["an invalid MAC", vmi({ interfaces: [ours({ macAddress: "02:00" })] }), "macAddress"],
    ["an invalid PCI address", vmi({ interfaces: [ours({ pciAddress: "81:01.0" })] }), "0000:81:01.0"],
    [
      "a pod interface name that would leave its directory",
      vmi({ status: { interfaces: [{ name: "blue", podInterfaceName: "../x" }] } }),
      "../x",
    ],
  ])("refuses %s", (_name, json, words) => {
    expect(() => parseVmi(json, "vhostuser")).toThrow(
      expect.objectContaining({ code: "invalid-vmi", message: expect.stringContaining(words) }),
    );
  });

  it("reads fewer queues, ring sizes, packed rings and an IOMMU from the annotation", () => {
    const settings = { blue: { queues: 2, rxQueueSize: 256, txQueueSize: 512, packed: true, iommu: true } };
    const json = vmi({
      settings,
      domain: { cpu: { cores: 4 } },
      devices: { networkInterfaceMultiqueue: true },
    });
    expect(parseVmi(json, "vhostuser").iommu).toBe("intel");
    expect(first(json)).toMatchObject({ queues: 2, settings: settings.blue });
    const arm = vmi({ settings: { blue: { iommu: true } }, spec: { architecture: "arm64" } });
    expect(parseVmi(arm, "vhostuser").iommu).toBe("smmuv3");
    expect(parseVmi(vmi({ settings: { blue: { queues: 1 } } }), "vhostuser").iommu).toBeUndefined();
  });

  it.each<[string, Given, string]>([
    [
      "more queues than the VM has vCPUs",
      { settings: { blue: { queues: 2 } } },
      "networkInterfaceMultiqueue",
    ],
    [
      "more queues than vCPUs",
      {
        settings: { blue: { queues: 5 } },
        domain: { cpu: { cores: 4 } },
        devices: { networkInterfaceMultiqueue: true },
      },
      "asks for 5 queues and can have 4",
    ],
    ["no queue", { settings: { blue: { queues: 0 } } }, "blue.queues"],
    ["a ring that is no power of two", { settings: { blue: { rxQueueSize: 1000 } } }, "256|512|1024"],
    ["a ring that QEMU has not", { settings: { blue: { txQueueSize: 2048 } } }, "blue.txQueueSize"],
    ["an invalid key", { settings: { blue: { rxqueuesize: 512 } } }, "rxqueuesize"],
    ["an invalid switch", { settings: { blue: { packed: "yes" } } }, "blue.packed"],
    ["settings of another interface", { settings: { red: {} } }, 'names "red"'],
    ["settings that are a list", { settings: [] }, "annotation vhostuser/interfaces"],
    [
      "an IOMMU on another machine",
      { settings: { blue: { iommu: true } }, domain: { machine: { type: "pc-i440fx" } } },
      '"pc-i440fx"',
    ],
    [
      "an IOMMU on s390x",
      { settings: { blue: { iommu: true } }, spec: { architecture: "s390x" } },
      '"s390x"',
    ],
  ])("refuses %s in the annotation", (_name, given, words) => {
    expect(() => parseVmi(vmi(given), "vhostuser")).toThrow(
      expect.objectContaining({ code: "invalid-vmi", message: expect.stringContaining(words) }),
    );
  });

  const claimed = (resourceClaims: readonly object[], resourceClaim: object) =>
    vmi({ networks: [{ name: "blue", resourceClaim }], spec: { resourceClaims } });

  it.each([
    ["of the VM", { resourceClaimName: "shared-port" }, { kind: "claim", claim: "shared-port" }],
    ["from a template", { resourceClaimTemplateName: "ports" }, { kind: "template", claim: "net" }],
  ])("finds a network's claim %s", (_name, source, expected) => {
    const json = claimed([{ name: "net", ...source }], { claimName: "net", requestName: "port" });
    expect(first(json)?.claim).toEqual({ ...expected, request: "port" });
    expect(first(vmi())?.claim).toBeUndefined();
  });

  it.each([
    ["is not in the VM", [], { claimName: "net", requestName: "port" }, 'claim "net"'],
    ["has no request", [{ name: "net" }], { claimName: "net" }, 'request ""'],
    ["would leave its directory", [{ name: "net" }], { claimName: "net", requestName: "../x" }, "../x"],
    ["climbs with dots", [{ name: "net" }], { claimName: "net", requestName: "a..b" }, "a..b"],
  ])("refuses a claim that %s", (_name, claims, network, words) => {
    expect(() => parseVmi(claimed(claims, network), "vhostuser")).toThrow(
      expect.objectContaining({ code: "invalid-vmi", message: expect.stringContaining(words) }),
    );
  });

  it("refuses more interfaces than any machine has, before it reads any", () => {
    const interfaces = [...Array(20_000)].map(() => ({}));
    expect(() => parseVmi(vmi({ interfaces }), "vhostuser")).toThrow(
      expect.objectContaining({ code: "invalid-vmi", message: expect.stringContaining("256") }),
    );
  });
});

describe("queuePairs", () => {
  it.each<[string, Parameters<typeof queuePairs>[0], number]>([
    ["cores alone", { cpu: { cores: 4 } }, 4],
    ["a full topology", { cpu: { cores: 4, sockets: 2, threads: 2 } }, 16],
    ["sockets with zero cores", { cpu: { cores: 0, sockets: 3, threads: 0 } }, 3],
    ["more than QEMU takes", { cpu: { cores: 200, sockets: 2 } }, 256],
    ["the limit before the request", { resources: { limits: { cpu: "3" }, requests: { cpu: "2" } } }, 3],
    ["the request", { cpu: { cores: 0 }, resources: { requests: { cpu: 2 } } }, 2],
    ["thousandths, rounded up", { resources: { limits: { cpu: "1500m" } } }, 2],
    ["a fraction, rounded up", { resources: { limits: { cpu: "0.5" } } }, 1],
    ["nothing at all", {}, 1],
  ])("counts %s", (_name, guest, pairs) => {
    expect(queuePairs(guest)).toBe(pairs);
  });
});
