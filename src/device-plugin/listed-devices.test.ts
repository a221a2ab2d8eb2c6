import { describe, expect, it } from "vitest";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { parseConfig } from "../config/load.ts";
import type { PoolConfig } from "../config/schema.ts";
import { deviceId } from "../names/device-id.ts";
import { DeviceUses } from "./device-uses.ts";
import { ListedDevices } from "./listed-devices.ts";

const HEALTHY = { healthy: true, numaNodes: [] };

function pool(changes: Partial<PoolConfig> = {}): PoolConfig {
  const text = "{node: n, pools: [{name: p, capacity: 4, dataplane: {type: ovs-dpdk, bridge: br0}}]}";
  const [first] = parseConfig(text, "c.yaml").pools;
  if (first === undefined) throw new Error("one pool");
  return { ...first, ...changes };
}

function start(config = pool()) {
  const allocations = new MemoryAllocations();
  const uses = new DeviceUses(allocations);
  const devices = new ListedDevices({ pool: config, uses });
  let changes = 0;
  devices.subscribe(() => changes++);
  const take = (...indices: readonly number[]) =>
    allocations.put({ devices: indices.map((index) => deviceId("p", index)) });
  return {
    allocations,
    devices,
    take,
    changes: () => changes,
    indices: () => devices.current().map(({ id }) => Number(id.slice(-5))),
  };
}

describe("a pool's listed devices", () => {
  it("begin unhealthy and become what the switch says, with one change for all of it", () => {
    const { devices, changes, indices } = start();
    expect(devices.current().some(({ healthy }) => healthy)).toBe(false);
    devices.update({ healthy: true, numaNodes: [1] });
    expect(indices()).toEqual([0, 1, 2, 3]);
    expect(devices.current().every(({ healthy, numaNodes }) => healthy && numaNodes[0] === 1)).toBe(true);
    devices.update({ healthy: true, numaNodes: [1] });
    expect(changes()).toBe(1);
  });

  it("do not change with allocations and releases within the capacity", () => {
    const { allocations, devices, take, changes } = start();
    devices.update(HEALTHY);
    const before = devices.current();
    for (const record of [take(0, 3), take(1)]) allocations.remove(record);
    devices.update(HEALTHY);
    expect(devices.current()).toBe(before);
    expect(changes()).toBe(1);
  });

  it("shrink at once by what is free, and by what was in use once it is freed", () => {
    const { allocations, devices, take, indices } = start(pool({ capacity: 8 }));
    devices.update(HEALTHY);
    const far = take(6, 7);
    const near = take(1);
    devices.reconfigure(pool({ capacity: 4 }));
    expect(indices()).toEqual([0, 1, 6, 7]);
    allocations.remove(far);
    // Not one list for each: the next look at the switch tells of all.
    expect(indices()).toEqual([0, 1, 6, 7]);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 2, 3]);
    allocations.remove(near);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 2, 3]);
  });

  it("grow at once", () => {
    const { devices, indices } = start();
    devices.reconfigure(pool({ capacity: 6 }));
    expect(indices()).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("leave out what pods hold under the pool's former resource, until it is freed", () => {
    const { allocations, devices, take, indices } = start();
    const record = take(2);
    devices.reconfigure(pool({ resource: "vhostuser/renamed" }));
    expect(indices()).toEqual([0, 1, 3]);
    expect(devices.find("p-00002")).toBeUndefined();
    allocations.remove(record);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 1, 2, 3]);
  });

  it("can be allocated for a moment after they left the list, for kubelet may not have read it", () => {
    const { devices, indices, take } = start();
    devices.update(HEALTHY);
    devices.reconfigure(pool({ capacity: 2 }));
    expect(devices.find("p-00003")).toMatchObject({ id: "p-00003" });
    take(3);
    devices.update(HEALTHY);
    expect(indices()).toEqual([0, 3]);
    devices.update(HEALTHY);
    expect([devices.find("p-00002"), devices.find("q-00000"), devices.find("p-00007")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("know how long they have been free", () => {
    const { allocations, devices, take } = start();
    for (const record of [take(1), take(0)]) allocations.remove(record);
    const lastUse = (index: number) => devices.find(deviceId("p", index))?.lastUse ?? Number.NaN;
    expect(lastUse(2)).toBe(0);
    expect(lastUse(0)).toBeGreaterThan(lastUse(1));
  });

  it("cost nothing while a thousand are allocated and freed, also after the pool was shrunk", () => {
    const { allocations, devices, take, changes, indices } = start(pool({ capacity: 1_000 }));
    devices.update(HEALTHY);
    const records = Array.from({ length: 1_000 }, (_, index) => take(index));
    expect(changes()).toBe(1);
    devices.reconfigure(pool({ capacity: 10 }));
    // All are in use: nothing goes.
    expect([changes(), indices().length]).toEqual([1, 1_000]);
    for (const record of records) allocations.remove(record);
    devices.update(HEALTHY);
    expect([changes(), indices().length]).toEqual([2, 10]);
  });
});
