import { expect, it } from "vitest";
import { age, plural } from "./words.ts";

it.each([
  [0, "0s"],
  [59_999, "59s"],
  [61_000, "1m1s"],
  [3_600_000, "1h"],
  [3_660_000, "1h1m"],
  [11 * 3_600_000 + 5, "11h"],
  [90_000_000, "1d1h"],
  [864_000_000, "10d"],
  [-5, "0s"],
])("an age of %i ms is %s", (ms, text) => expect(age(ms)).toBe(text));

it("a noun follows its count", () => {
  expect([plural(0, "port"), plural(1, "port"), plural(2, "port")]).toEqual(["0 ports", "1 port", "2 ports"]);
});
