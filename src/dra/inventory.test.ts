import { describe, expect, it } from "vitest";
import { portKeys } from "../cni/network-keys.ts";
import { CLAIM_KEYS } from "../config/claim-keys.ts";
import { deviceHealth, type OfferedPool, planSliceDevices, poolOfDevice, sliceSpecs } from "./inventory.ts";

const pool = (name: string, change: Partial<OfferedPool> & { readonly bandwidth?: number } = {}) => {
  const { bandwidth, ...others } = change;
  const claims = { ports: 3, mayConfigure: [], ...(bandwidth === undefined ? {} : { bandwidth }) };
  return {
    config: {
      ...{ name, resource: `vhostuser/${name}`, claims },
      dataplane: { type: "ovs-dpdk" as const, database: "/db.sock", bridge: `br-${name}` },
    },
    ...{ healthy: true, uplink: {}, ports: 3 },
    ...others,
  };
};
const UPLINK = { numaNode: 1, pciAddress: "0000:3b:00.1", pcieRoot: "pci0000:3a", mtu: 9_000 };
const names = (pools: readonly OfferedPool[], isShared: boolean) =>
  planSliceDevices(pools, isShared).map(({ name }) => name);

describe("devices for claims", () => {
  it("are one for each pool, which claims share port by port", () => {
    expect(planSliceDevices([pool("red", { uplink: UPLINK, bandwidth: 25_000_000_000 })], true)).toEqual([
      {
        name: "red",
        allowMultipleAllocations: true,
        attributes: {
          ...{ pool: { string: "red" }, bridge: { string: "br-red" }, switch: { string: "ovs-dpdk" } },
          "k8s.cni.cncf.io/resourceName": { string: "vhostuser/red" },
          "k8s.cni.cncf.io/deviceID": { string: "red" },
          ...{ numaNode: { int: 1 }, mtu: { int: 9000 } },
          "resource.kubernetes.io/pciBusID": { string: "0000:3b:00.1" },
          "resource.kubernetes.io/pcieRoot": { string: "pci0000:3a" },
        },
        capacity: {
          ports: { value: "3", requestPolicy: { default: "1", validValues: ["1"] } },
          bandwidth: { value: "25000000000", requestPolicy: { default: "0", validRange: { min: "0" } } },
        },
      },
    ]);
  });

  it("are one for each socket where the cluster cannot share them", () => {
    const devices = planSliceDevices([pool("red")], false);
    expect(devices.map(({ name }) => name)).toEqual(["red--0", "red--1", "red--2"]);
    expect(devices.every((device) => !("allowMultipleAllocations" in device || "capacity" in device))).toBe(
      true,
    );
  });

  it("are none of a pool without a switch, or without ports", () => {
    const pools = [pool("red", { healthy: false }), pool("blue"), pool("green", { ports: 0 })];
    expect(names(pools, true)).toEqual(["blue"]);
    expect(names(pools, false)).toEqual(["blue--0", "blue--1", "blue--2"]);
  });

  it("say nothing of hardware that is not known", () => {
    const [device] = planSliceDevices([pool("red")], true);
    expect(Object.keys(device?.attributes ?? {})).toEqual([
      ...["pool", "bridge", "switch", "k8s.cni.cncf.io/resourceName", "k8s.cni.cncf.io/deviceID"],
    ]);
  });

  it("have no attribute that would be too long for a slice", () => {
    const long = pool("red");
    const device = planSliceDevices(
      [{ ...long, config: { ...long.config, resource: `${"a".repeat(60)}/sockets` } }],
      true,
    );
    expect(device[0]?.attributes).not.toHaveProperty(["k8s.cni.cncf.io/resourceName"]);
  });

  it("are found by either name, of pools with claims alone", () => {
    const { claims: _, ...config } = pool("none").config;
    const pools = new Map<string, { readonly config: OfferedPool["config"] }>([
      ["red", pool("red")],
      ["none", { config }],
    ]);
    expect(poolOfDevice(pools, "red")).toBe(pools.get("red"));
    expect(poolOfDevice(pools, "red--17")).toBe(pools.get("red"));
    for (const device of ["none", "none--1", "blue", "red--", "red-1"])
      expect(poolOfDevice(pools, device)).toBeUndefined();
  });

  it("have a health also while they are not offered", () => {
    const health = deviceHealth("n", [pool("red", { healthy: false }), pool("blue")], true);
    expect(health).toEqual([
      {
        pool: "n",
        device: "red",
        healthy: false,
        message: "the switch of pool red does not serve ports",
      },
      { pool: "n", device: "blue", healthy: true, message: undefined },
    ]);
  });
});

describe("slices", () => {
  it("are one that is empty where there are no devices", () => {
    expect(sliceSpecs("n", [], 4)).toEqual([
      {
        ...{ driver: "vhostuser.kube-vhostuser.io", nodeName: "n" },
        pool: { name: "n", generation: 4, resourceSliceCount: 1 },
      },
    ]);
  });

  it("have at most 128 devices each, and every device once", () => {
    const devices = planSliceDevices([pool("red", { ports: 300 })], false);
    const specs = sliceSpecs("n", devices, 1);
    expect(specs.map((spec) => spec.devices?.length)).toEqual([128, 128, 44]);
    expect(specs.every((spec) => spec.pool.resourceSliceCount === 3)).toBe(true);
    expect(specs.flatMap((spec) => spec.devices)).toEqual(devices);
  });
});

it("a claim's keys are those of a network's ports", () => {
  expect([...CLAIM_KEYS].sort()).toEqual(
    [...Object.keys(portKeys), "mtu", "mac", "name", "ipam", "dns", "allowPersistentIPs"].sort(),
  );
});
