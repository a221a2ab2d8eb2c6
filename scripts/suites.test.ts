import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { SIDE_BY_SIDE } from "./suites.ts";

it("files that run side by side are there, each of them once", () => {
  expect(SIDE_BY_SIDE.filter((file) => !existsSync(file))).toEqual([]);
  expect(new Set(SIDE_BY_SIDE).size).toBe(SIDE_BY_SIDE.length);
});
