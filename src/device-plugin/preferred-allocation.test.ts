import { describe, expect, it } from "vitest";
import { preferDevices } from "./preferred-allocation.ts";

describe("preferred devices", () => {
  it.each([
    {
      wish: "the first in order",
      available: ["a-2", "a-0", "a-1"],
      must: [],
      size: 2,
      gives: ["a-0", "a-1"],
    },
    {
      wish: "what must be in, first",
      available: ["a-0", "a-1", "a-2"],
      must: ["a-2"],
      size: 2,
      gives: ["a-2", "a-0"],
    },
    { wish: "all there are when too few", available: ["a-0"], must: [], size: 3, gives: ["a-0"] },
    { wish: "none for none", available: ["a-0"], must: [], size: 0, gives: [] },
    { wish: "none for a senseless size", available: ["a-0"], must: [], size: -1, gives: [] },
  ])("are $wish", ({ available, must, size, gives }) => {
    expect(preferDevices({ available, mustInclude: must, size })).toEqual(gives);
  });
});
