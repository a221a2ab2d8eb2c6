import { describe, expect, it } from "vitest";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { DeviceUses } from "./device-uses.ts";

const POOL = "sockets";
const [A, B, C] = ["sockets-00000", "sockets-00001", "sockets-00002"] as const;

describe("device uses", () => {
  it("know what was allocated before this process began, and under which resource", () => {
    const allocations = new MemoryAllocations();
    allocations.put({ devices: [A, B], resource: "vhostuser/old" });
    const uses = new DeviceUses(allocations);
    expect(uses.ofPool(POOL)).toEqual(
      new Map([
        [A, "vhostuser/old"],
        [B, "vhostuser/old"],
      ]),
    );
    expect([uses.has(POOL), uses.has("other")]).toEqual([true, false]);
  });

  it("follow the newest of several allocations of a device, and free it with the last", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const init = allocations.put({ devices: [A], resource: "vhostuser/old" });
    const main = allocations.put({ devices: [A] });
    expect(uses.resourceOf(POOL, A)).toBe("vhostuser/sockets");
    allocations.remove(main);
    expect(uses.resourceOf(POOL, A)).toBe("vhostuser/old");
    allocations.remove(init);
    expect(uses.resourceOf(POOL, A)).toBeUndefined();
    expect(uses.pools()).toEqual([]);
  });

  it("order devices: never used, freed first, freed last, in use", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const records = [C, B, A].map((device) => allocations.put({ devices: [device] }));
    const order = () =>
      [A, B, C, "sockets-00003"].sort((x, y) => uses.lastUse(POOL, x) - uses.lastUse(POOL, y));
    expect(order()).toEqual(["sockets-00003", C, B, A]);
    for (const record of [records[2], records[1]]) if (record !== undefined) allocations.remove(record);
    expect(order()).toEqual(["sockets-00003", A, B, C]);
  });

  it("do not take a changed record for a freed device", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const told: (readonly string[])[] = [];
    uses.subscribe((devices) => told.push(devices));
    const record = allocations.put({ devices: [A] });
    const used = uses.lastUse(POOL, A);
    allocations.replace({ ...record, createdAt: 7 });
    expect(uses.lastUse(POOL, A)).toBe(used);
    expect(told).toEqual([[A], [A]]);
    uses.close();
    allocations.remove(record);
    expect(told).toHaveLength(2);
  });
});
