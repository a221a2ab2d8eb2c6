import { describe, expect, it } from "vitest";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { planReclaim } from "./plan-reclaim.ts";

const GRACE = 100;

function allocation(id: string, sequence: number, createdAt: number, ...devices: string[]): AllocationRecord {
  return {
    id,
    pool: "sockets",
    resource: "vhostuser/sockets",
    devices,
    ownership: { owner: 107, group: 107, mode: 0o2770 },
    createdAt,
    sequence,
  };
}

function removed(
  allocations: AllocationRecord[],
  held: string[],
  nowMs: number,
  before: string[] = allocations.map(({ id }) => id),
): string[] {
  const plan = planReclaim({
    allocations,
    held: new Set(held),
    before: new Set(before),
    nowMs,
    graceMs: GRACE,
  });
  return plan.remove.map(({ id }) => id);
}

describe("reclaiming allocations", () => {
  it("keeps one while a pod holds any of its devices", () => {
    expect(removed([allocation("a", 1, 0, "d1", "d2")], ["d2"], 1000)).toEqual([]);
  });

  it("removes one that no pod holds at the second look, not at the first", () => {
    const one = [allocation("a", 1, 0, "d1")];
    expect(removed(one, [], 1000, [])).toEqual([]);
    expect(removed(one, [], 1000)).toEqual(["a"]);
  });

  it("keeps one that is young, because its pod may not have shown up yet", () => {
    expect(removed([allocation("a", 1, 950, "d1")], [], 1000)).toEqual([]);
  });

  it("removes the older one when a device was given to another pod", () => {
    const both = [allocation("a", 1, 0, "d1"), allocation("b", 2, 500, "d1")];
    expect(removed(both, ["d1"], 1000)).toEqual(["a"]);
  });

  it("keeps an init container's allocation for as long as its pod's main container holds the device", () => {
    const both = [allocation("init", 1, 0, "d1"), allocation("main", 2, 1, "d1")];
    expect(removed(both, ["d1"], 1000)).toEqual([]);
    expect(removed(both, [], 1000)).toEqual(["init", "main"]);
  });

  it("keeps an allocation of several devices when only some went to another pod", () => {
    const both = [allocation("a", 1, 0, "d1", "d2"), allocation("b", 2, 500, "d1")];
    expect(removed(both, ["d1", "d2"], 1000)).toEqual([]);
    expect(removed(both, ["d1"], 1000)).toEqual(["a"]);
  });

  it("forgets that one was abandoned once it is held again", () => {
    const one = [allocation("a", 1, 0, "d1")];
    const plan = planReclaim({
      allocations: one,
      held: new Set(["d1"]),
      before: new Set(["a"]),
      nowMs: 1000,
      graceMs: GRACE,
    });
    expect([...plan.abandoned]).toEqual([]);
  });
});
