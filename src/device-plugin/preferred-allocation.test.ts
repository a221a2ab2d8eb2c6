import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { preferDevices } from "./preferred-allocation.ts";

/** Last use of devices by id. */
const DEVICES: Readonly<Record<string, number>> = { a0: 5, a1: 0, a2: 3, b0: 1, b1: 9 };
const ALL = Object.keys(DEVICES);
const prefer = (
  available_deviceIDs: readonly string[],
  must_include_deviceIDs: readonly string[],
  allocation_size: number,
) =>
  preferDevices({ available_deviceIDs, must_include_deviceIDs, allocation_size }, (id) =>
    Object.hasOwn(DEVICES, id) ? DEVICES[id] : undefined,
  );

describe("preferred devices", () => {
  it.each([
    { wish: "the longest free", available: ALL, must: [], size: 2, gives: ["a1", "b0"] },
    {
      wish: "the first by id of those never used",
      available: ["x1", "x0"],
      must: [],
      size: 1,
      gives: ["x0"],
    },
    {
      wish: "what must be in, then the longest free",
      available: ALL,
      must: ["b1"],
      size: 2,
      gives: ["b1", "a1"],
    },
    {
      wish: "only what must be in, where that is all",
      available: ALL,
      must: ["a0", "b1"],
      size: 2,
      gives: ["a0", "b1"],
    },
    {
      wish: "ones that were never listed, last",
      available: ["gone", "b1"],
      must: [],
      size: 2,
      gives: ["b1", "gone"],
    },
    { wish: "all there are when too few", available: ["a0"], must: [], size: 3, gives: ["a0"] },
    { wish: "none for none", available: ["a0"], must: [], size: 0, gives: [] },
    { wish: "none for a senseless size", available: ["a0"], must: [], size: -1, gives: [] },
    { wish: "none for no number at all", available: ["a0"], must: [], size: Number.NaN, gives: [] },
    {
      wish: "no more than wanted of what must be in",
      available: ALL,
      must: ["a0", "b0"],
      size: 1,
      gives: ["a0"],
    },
    { wish: "each once", available: ["a0", "a0"], must: ["a0"], size: 2, gives: ["a0"] },
  ])("are $wish", ({ available, must, size, gives }) => {
    expect(prefer(available, must, size)).toEqual(gives);
  });

  it("are among the offered ones, without duplicates, as many as possible, and the same in any order", () => {
    const ids = fc.array(fc.constantFrom(...ALL, "gone", "", "__proto__"));
    fc.assert(
      fc.property(ids, ids, fc.integer({ min: -2, max: 12 }), (available, must, size) => {
        const answer = prefer(available, must, size);
        const asked = new Set([...available, ...must]);
        expect(new Set(answer).size).toBe(answer.length);
        expect(answer.filter((id) => !asked.has(id))).toEqual([]);
        expect(answer).toHaveLength(Math.min(Math.max(0, size), asked.size));
        const musts = [...new Set(must)].slice(0, Math.max(0, size));
        expect(answer.slice(0, musts.length)).toEqual(musts);
        expect(prefer([...available].reverse(), must, size)).toEqual(answer);
      }),
    );
  });
});
