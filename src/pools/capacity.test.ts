import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exampleClaim } from "../../test/stand-in/records/example-claim.ts";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { DeviceUses, planDevices, splitCapacity } from "./capacity.ts";

const POOL = "sockets";
const [A, B, C] = ["sockets-00000", "sockets-00001", "sockets-00002"] as const;

describe("device uses", () => {
  it("know what was allocated before this process began, and under which resource", () => {
    const allocations = new MemoryAllocations();
    allocations.put({ devices: [A, B], resource: "vhostuser/old" });
    const uses = new DeviceUses(allocations);
    expect([...uses.ofPool(POOL)]).toEqual([
      [0, "vhostuser/old"],
      [1, "vhostuser/old"],
    ]);
    expect(uses.ofPool("other").size).toBe(0);
  });

  it("follow the newest of several allocations of a device, and free it with the last", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const init = allocations.put({ devices: [A], resource: "vhostuser/old" });
    const main = allocations.put({ devices: [A] });
    expect(uses.ofPool(POOL).get(0)).toBe("vhostuser/sockets");
    allocations.remove(main);
    expect(uses.ofPool(POOL).get(0)).toBe("vhostuser/old");
    allocations.remove(init);
    expect(uses.ofPool(POOL).size).toBe(0);
  });

  it("order devices: never used, freed first, freed last, in use", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const records = [C, B, A].map((device) => allocations.put({ devices: [device] }));
    const order = () => [A, B, C, "sockets-00003"].sort((x, y) => uses.lastUse(x) - uses.lastUse(y));
    expect(order()).toEqual(["sockets-00003", C, B, A]);
    for (const record of [records[2], records[1]]) if (record !== undefined) allocations.remove(record);
    expect(order()).toEqual(["sockets-00003", A, B, C]);
  });

  it("do not count a changed record as a freed device", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const record = allocations.put({ devices: [A] });
    const used = uses.lastUse(A);
    allocations.replace({ ...record, createdAt: 7 });
    expect(uses.lastUse(A)).toBe(used);
    const { changes } = uses;
    uses.close();
    allocations.remove(record);
    expect(uses.changes).toBe(changes);
  });
});

describe("a pool's capacity", () => {
  it("counts what claims hold until they release it", () => {
    const allocations = new MemoryAllocations();
    const uses = new DeviceUses(allocations);
    const claimed = { ...allocations.put({ devices: [A] }), holder: exampleClaim({ device: POOL }) };
    allocations.replace(claimed);
    expect([uses.claimsOf(POOL), uses.ofPool(POOL).size, uses.claimsOf("other")]).toEqual([1, 0, 0]);
    allocations.remove(claimed);
    expect(uses.claimsOf(POOL)).toBe(0);
  });

  it("is all the device plugin's without claims", () => {
    expect(splitCapacity({ capacity: 8 }, { plugin: 3, claims: 0 })).toEqual({ plugin: 8, claims: 0 });
  });

  it("is never given out twice, whatever was held when the configuration changed", () => {
    const count = fc.integer({ min: 0, max: 20 });
    fc.assert(
      fc.property(count, count, count, count, (capacity, part, plugin, claims) => {
        const ports = Math.min(part, capacity);
        const held = { plugin: Math.min(plugin, capacity), claims: Math.min(claims, capacity) };
        const offered = splitCapacity({ capacity, claims: { ports } }, held);
        expect(Math.max(offered.plugin, held.plugin) + offered.claims).toBeLessThanOrEqual(capacity);
        expect(offered.plugin + Math.max(offered.claims, held.claims)).toBeLessThanOrEqual(capacity);
        if (held.plugin <= capacity - ports) expect(offered.claims).toBe(ports);
        if (held.claims <= ports) expect(offered.plugin).toBe(capacity - ports);
      }),
    );
  });
});

const RESOURCE = "vhostuser/sockets";

const plan = (capacity: number, inUse: readonly number[], former: readonly number[] = []) =>
  planDevices(
    { capacity, resource: RESOURCE },
    new Map([
      ...former.map((index) => [index, "vhostuser/former"] as const),
      ...inUse.map((index) => [index, RESOURCE] as const),
    ]),
  );

describe("the devices of a resource", () => {
  it.each([
    { what: "the first numbers where the capacity was never lowered", got: plan(3, [1]), want: [0, 1, 2] },
    {
      what: "those in use beyond the capacity, and free ones up to it",
      got: plan(4, [6, 7]),
      want: [0, 1, 6, 7],
    },
    { what: "those in use where they are more than the capacity", got: plan(2, [1, 5, 6]), want: [1, 5, 6] },
    { what: "none that a pod holds under another resource", got: plan(3, [], [1]), want: [0, 2] },
    { what: "none beyond the capacity in place of such a one", got: plan(2, [], [0, 1]), want: [] },
  ])("are $what", ({ got, want }) => {
    expect(got).toEqual(want);
  });

  it("have all that is in use, nothing of another resource, and no more than capacity or use ask for", () => {
    const numbers = fc.uniqueArray(fc.integer({ min: 0, max: 40 }));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), numbers, numbers, (capacity, used, other) => {
        const former = other.filter((index) => !used.includes(index));
        const list = plan(capacity, used, former);
        expect(list).toEqual([...new Set(list)].sort((one, two) => one - two));
        expect(used.filter((index) => !list.includes(index))).toEqual([]);
        expect(list.filter((index) => former.includes(index))).toEqual([]);
        expect(list.filter((index) => index >= capacity && !used.includes(index))).toEqual([]);
        const free = Array.from({ length: capacity }, (_, index) => index).filter(
          (index) => !used.includes(index) && !former.includes(index),
        ).length;
        expect(list).toHaveLength(Math.max(used.length, Math.min(capacity, used.length + free)));
      }),
    );
  });
});
