import { expect, it } from "vitest";
import { RequestOrder } from "./request-order.ts";

it("gives a socket to no ADD that began before the one that has had it", () => {
  const order = new RequestOrder();
  expect(order.take("/a", 20)).toBe(true);
  expect(order.take("/a", 10)).toBe(false);
  expect(order.take("/b", 10)).toBe(true);
  expect(order.take("/a", 20)).toBe(true);
  expect(order.take("/a", 30)).toBe(true);
  expect(order.isTakenSince("/a", 25)).toBe(true);
  expect(order.isTakenSince("/a", 30)).toBe(false);
  expect(order.isTakenSince("/c", 0)).toBe(false);
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
  const minute = 60_000;
  order.take("/a", 0);
  order.take("/b", 5 * minute);
  order.take("/c", 10 * minute);
  expect(order.isTakenSince("/a", -1)).toBe(false);
  expect(order.isTakenSince("/b", minute)).toBe(true);
});
