import { expect, it } from "vitest";
import { RequestOrder } from "./request-order.ts";

const MINUTE = 60_000;
const by = (containerId: string, startedAtMs: number) => ({ containerId, startedAtMs });

it("gives a socket to no ADD that began before that of another sandbox which has had it", () => {
  const order = new RequestOrder();
  expect(order.take("/a", by("new", 20))).toBe(true);
  expect(order.take("/a", by("old", 10))).toBe(false);
  expect(order.take("/b", by("old", 10))).toBe(true);
  expect(order.take("/a", by("newest", 30))).toBe(true);
  expect(order.isTakenSince("/a", 25)).toBe(true);
  expect(order.isTakenSince("/a", 30)).toBe(false);
  expect(order.isTakenSince("/c", 0)).toBe(false);
});

it("lets the ADDs of one sandbox come in any order, and counts the latest", () => {
  const order = new RequestOrder();
  expect(order.take("/a", by("c", 20))).toBe(true);
  expect(order.take("/a", by("c", 10))).toBe(true);
  expect(order.take("/a", by("other", 15))).toBe(false);
});

it("knows which DEL came last of those that began, whatever order they arrive in", () => {
  const order = new RequestOrder();
  order.end("c@net1", 20);
  order.end("c@net1", 10);
  expect(order.isEndedSince("c@net1", 15)).toBe(true);
  expect(order.isEndedSince("c@net1", 20)).toBe(false);
  expect(order.isEndedSince("c@net2", 0)).toBe(false);
});

it("forgets what no living caller can be older than", () => {
  const order = new RequestOrder();
  order.take("/a", by("c", 0));
  order.take("/b", by("c", 5 * MINUTE));
  order.take("/c", by("c", 10 * MINUTE));
  expect(order.isTakenSince("/a", -1)).toBe(false);
  expect(order.isTakenSince("/b", MINUTE)).toBe(true);
});
