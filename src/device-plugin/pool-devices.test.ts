import { describe, expect, it } from "vitest";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { parseConfig } from "../config/load.ts";
import { deviceId } from "../names/device-id.ts";
import { DeviceUses } from "../pools/capacity.ts";
import { PoolDevices } from "./pool-devices.ts";

const HEALTHY = { healthy: true, uplink: {} };

function start(
  capacity = 4,
  held: readonly number[] = [],
  heldUnder = "vhostuser/sockets",
  keys: object = {},
) {
  const pool = { name: "p", capacity, dataplane: { type: "ovs-dpdk", bridge: "br0" }, ...keys };
  const text = JSON.stringify({ node: "n", dra: { enabled: true }, pools: poolsByName(pool) });
  const [config] = parseConfig(text, "c.yaml").pools;
  if (config === undefined) throw new Error("one pool");
  const allocations = new MemoryAllocations();
  const take = (indices: readonly number[], resource?: string) =>
    allocations.put({
      devices: indices.map((index) => deviceId("p", index)),
      ...(resource === undefined ? {} : { resource }),
    });
  const before = held.map((index) => take([index], heldUnder));
  const devices = new PoolDevices(config, new DeviceUses(allocations));
  let changes = 0;
  devices.subscribe(() => changes++);
  return {
    allocations,
    before,
    devices,
    take,
    changes: () => changes,
    indices: () => devices.current().map(({ id }) => Number(id.slice(-5))),
  };
}

describe("a pool's devices", () => {
  it("begin unhealthy and become what the switch says, with one change for all of it", () => {
    const { devices, changes, indices } = start();
    expect(devices.current().some(({ healthy }) => healthy)).toBe(false);
    devices.update({ healthy: true, uplink: { numaNode: 1 } });
    expect(indices()).toEqual([0, 1, 2, 3]);
    expect(devices.current().every(({ healthy, numaNodes }) => healthy && numaNodes[0] === 1)).toBe(true);
    devices.update({ healthy: true, uplink: { numaNode: 1 } });
    expect(changes()).toBe(1);
  });

  it("do not change with allocations and releases within the capacity", () => {
    const { allocations, devices, take, changes } = start();
    devices.update(HEALTHY);
    const before = devices.current();
    for (const record of [take([0, 3]), take([1])]) allocations.remove(record);
    devices.update(HEALTHY);
    expect(devices.current()).toBe(before);
    expect(changes()).toBe(1);
  });

  it("are more than a lowered capacity while pods hold them, and leave the list together when freed", () => {
    const { allocations, before, devices, changes, indices } = start(4, [1, 6, 7]);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 6, 7]);
    for (const record of before.slice(1)) allocations.remove(record);
    // Not one list for each: the next update has both.
    expect(indices()).toEqual([0, 1, 6, 7]);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 2, 3]);
    expect(changes()).toBe(2);
  });

  it("leave out what pods hold under the pool's former resource, until it is freed", () => {
    const { allocations, before, devices, indices } = start(4, [2], "vhostuser/former");
    expect(indices()).toEqual([0, 1, 3]);
    expect(devices.lastUse("p-00002")).toBeUndefined();
    for (const record of before) allocations.remove(record);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 2, 3]);
  });

  it("leave the ports of claims to these", () => {
    const { indices } = start(4, [3], undefined, { claims: { ports: 2 } });
    expect(indices()).toEqual([0, 3]);
  });

  it("can be allocated after they left the list, for kubelet may not have read it", () => {
    const { allocations, before, devices, indices } = start(2, [3]);
    for (const record of before) allocations.remove(record);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1]);
    expect(devices.lastUse("p-00003")).toBeDefined();
    expect([devices.lastUse("q-00000"), devices.lastUse("p-00007")]).toEqual([undefined, undefined]);
  });

  it("know how long they have been free", () => {
    const { allocations, devices, take } = start();
    for (const record of [take([1]), take([0])]) allocations.remove(record);
    const lastUse = (index: number) => devices.lastUse(deviceId("p", index)) ?? Number.NaN;
    expect(lastUse(2)).toBe(0);
    expect(lastUse(0)).toBeGreaterThan(lastUse(1));
  });

  it("send one list where a thousand are freed", () => {
    const { allocations, before, devices, changes, indices } = start(
      10,
      Array.from({ length: 1_000 }, (_, index) => index),
    );
    devices.update(HEALTHY);
    expect([changes(), indices().length]).toEqual([1, 1_000]);
    for (const record of before) allocations.remove(record);
    devices.update(HEALTHY);
    expect([changes(), indices().length]).toEqual([2, 10]);
  });
});
