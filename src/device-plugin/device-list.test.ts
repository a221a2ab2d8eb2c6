import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planDeviceList } from "./device-list.ts";

const plan = (
  capacity: number,
  inUse: readonly number[],
  { blocked = [], listed = [] }: { blocked?: readonly number[]; listed?: readonly number[] } = {},
) => planDeviceList({ capacity, inUse: new Set(inUse), blocked: new Set(blocked), listed: new Set(listed) });

describe("the devices to list", () => {
  it.each([
    { what: "the first numbers for a pool that was never shrunk", got: plan(3, [1]), want: [0, 1, 2] },
    {
      what: "those in use beyond the capacity, and free ones up to it",
      got: plan(4, [6, 7]),
      want: [0, 1, 6, 7],
    },
    {
      what: "only those in use where they are more than the capacity",
      got: plan(2, [1, 5, 6]),
      want: [1, 5, 6],
    },
    {
      what: "what was listed rather than what was not",
      got: plan(3, [7], { listed: [1, 2, 7] }),
      want: [1, 2, 7],
    },
    {
      what: "none that a pod holds under another resource",
      got: plan(3, [], { blocked: [1] }),
      want: [0, 2],
    },
    {
      what: "none beyond the capacity in place of a blocked one",
      got: plan(2, [], { blocked: [0, 1] }),
      want: [],
    },
  ])("are $what", ({ got, want }) => {
    expect(got).toEqual(want);
  });

  it("hold all that is in use, nothing blocked, and no more than capacity or use ask for", () => {
    const numbers = fc.uniqueArray(fc.integer({ min: 0, max: 40 }));
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        numbers,
        numbers,
        numbers,
        (capacity, used, other, listed) => {
          const blocked = other.filter((index) => !used.includes(index));
          const list = plan(capacity, used, { blocked, listed });
          expect(list).toEqual([...new Set(list)].sort((one, two) => one - two));
          expect(used.filter((index) => !list.includes(index))).toEqual([]);
          expect(list.filter((index) => blocked.includes(index))).toEqual([]);
          expect(list.filter((index) => index >= capacity && !used.includes(index))).toEqual([]);
          const room = Array.from({ length: capacity }, (_, index) => index).filter(
            (index) => !used.includes(index) && !blocked.includes(index),
          ).length;
          expect(list).toHaveLength(Math.max(used.length, Math.min(capacity, used.length + room)));
          // What was decided once stays.
          expect(plan(capacity, used, { blocked, listed: list })).toEqual(list);
        },
      ),
    );
  });
});
