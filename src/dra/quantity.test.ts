import { expect, it } from "vitest";
import { quantitySchema } from "./quantity.ts";

it.each([
  ["0", 0],
  [5, 5],
  ["10G", 10_000_000_000],
  ["1500M", 1_500_000_000],
  ["1.5k", 1_500],
  ["2e9", 2_000_000_000],
  ["2E", 2e18],
  ["1Gi", 1_073_741_824],
  ["100m", 1],
])("the quantity %s is %d", (given, number) => {
  expect(quantitySchema.parse(given)).toBe(number);
});

it.each(["", "-1", "10g", "1e", "1.2.3", "G", "0x10", "5constructor", null])("%s is no quantity", (given) => {
  expect(quantitySchema.safeParse(given).success).toBe(false);
});
