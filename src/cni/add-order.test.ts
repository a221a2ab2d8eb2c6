import { expect, it } from "vitest";
import { AddOrder } from "./add-order.ts";

it("refuses an ADD whose socket a later one has had, and nobody else", async () => {
  const order = new AddOrder();
  const turn = Promise.withResolvers<void>();
  const take = (path: string) => order.run(async (arrival) => order.take(path, arrival));
  const early = order.run(async (arrival) => {
    await turn.promise;
    return [order.take("/a", arrival), order.take("/b", arrival)];
  });
  expect(await take("/a")).toBe(true);
  expect(await take("/a")).toBe(true);
  turn.resolve();
  expect(await early).toEqual([false, true]);
  expect(await take("/a")).toBe(true);
});

it("refuses it also where the later one failed: its sandbox is given up all the same", async () => {
  const order = new AddOrder();
  const early = Promise.withResolvers<number>();
  const turn = Promise.withResolvers<void>();
  const done = order.run(async (arrival) => {
    early.resolve(arrival);
    await turn.promise;
  });
  const failed = order.run(async (arrival) => {
    order.take("/a", arrival);
    throw new Error("no switch");
  });
  await expect(failed).rejects.toThrow("no switch");
  expect(order.take("/a", await early.promise)).toBe(false);
  turn.resolve();
  await done;
});

it("calls off what had come before the DEL, and only that attachment", async () => {
  const order = new AddOrder();
  const turn = Promise.withResolvers<void>();
  const isOff = (name: string) =>
    order.run(async (arrival) => {
      await turn.promise;
      return order.isCalledOff(name, arrival);
    });
  const [one, other] = [isOff("c@net1"), isOff("c@net2")];
  const { last } = order;
  const anew = isOff("c@net1");
  order.callOff("c@net1", last);
  turn.resolve();
  expect(await Promise.all([one, other, anew])).toEqual([true, false, false]);
  expect(await isOff("c@net1")).toBe(false);
});
