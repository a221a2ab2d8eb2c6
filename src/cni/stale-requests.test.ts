import { expect, it } from "vitest";
import { StaleRequestFilter } from "./stale-requests.ts";

it("recognises a request that started before the end, of the same key only, whichever end was recorded first", () => {
  const filter = new StaleRequestFilter();
  filter.recordEnd("a", 20);
  filter.recordEnd("a", 10);
  expect([filter.isStale("a", 15), filter.isStale("a", 20), filter.isStale("a", 25)]).toEqual([
    true,
    false,
    false,
  ]);
  expect(filter.isStale("b", 15)).toBe(false);
});

it("forgets an end once no request from before it can be running", () => {
  const filter = new StaleRequestFilter();
  filter.recordEnd("a", 0);
  filter.recordEnd("b", 5 * 60_000);
  filter.recordEnd("c", 11 * 60_000);
  expect(filter.isStale("a", -1)).toBe(false);
  expect(filter.isStale("b", -1)).toBe(true);
});
