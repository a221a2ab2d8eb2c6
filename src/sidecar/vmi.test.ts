import { describe, expect, it } from "vitest";
import { parseVmi } from "./vmi.ts";

interface Given {
  readonly interfaces?: readonly object[];
  readonly networks?: readonly object[];
  readonly spec?: object;
  readonly domain?: object;
  readonly devices?: object;
  readonly status?: object;
}

/** A VMI with one interface of ours, `blue`, which the test changes. */
function vmi(given: Given = {}): string {
  return JSON.stringify({
    metadata: { name: "router", namespace: "tests" },
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
  it("takes the interfaces of our binding in VMI order, and none that is being unplugged", () => {
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
      pciAddress: { domain: "0000", bus: "8A", slot: "1f", function: "7" },
      mac: "02:aa:00:00:00:01",
      bootOrder: 2,
      acpiIndex: 101,
    });
  });

  it("asks for queues only where the VMI does, and tells amd64 and launch security", () => {
    const cpu = { cpu: { cores: 4 } };
    expect(parseVmi(vmi({ domain: cpu }), "vhostuser")).toMatchObject({
      queues: undefined,
      launchSecurity: false,
      romTuning: true,
    });
    const json = vmi({
      domain: { ...cpu, launchSecurity: {} },
      devices: { networkInterfaceMultiqueue: true },
      spec: { architecture: "arm64" },
    });
    expect(parseVmi(json, "vhostuser")).toMatchObject({ queues: 4, launchSecurity: true, romTuning: false });
  });

  it.each<[string, string, string]>([
    ["what is no JSON", "{", "not JSON"],
    ["a VMI without a domain", '{"metadata":{"name":"a"},"spec":{}}', "spec.domain"],
    ["a boot order that is none", vmi({ interfaces: [ours({ bootOrder: 0 })] }), "interfaces.0.bootOrder"],
    ["an interface without its network", vmi({ networks: [] }), 'no network is named "blue"'],
    ["a model without vhost-user", vmi({ interfaces: [ours({ model: "e1000e" })] }), '"e1000e"'],
    ["a multicast MAC", vmi({ interfaces: [ours({ macAddress: "01:00:00:00:00:01" })] }), "macAddress"],
    ["a MAC that is none", vmi({ interfaces: [ours({ macAddress: "02:00" })] }), "macAddress"],
    ["a PCI address that is none", vmi({ interfaces: [ours({ pciAddress: "81:01.0" })] }), "0000:81:01.0"],
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
});
