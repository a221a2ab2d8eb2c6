import { expect, test } from "vitest";
import { Cleanup } from "./cleanup.ts";

test("undoes everything in reverse order, also after one undo failed, and reports it", async () => {
  const cleanup = new Cleanup();
  const done: string[] = [];
  cleanup.defer("first", () => void done.push("first"));
  cleanup.defer("second", () => {
    throw new Error("stuck");
  });
  cleanup.defer("third", async () => void done.push("third"));

  await expect(cleanup.run()).rejects.toThrow("second: stuck");
  expect(done).toEqual(["third", "first"]);
});

test("runs once, however often it is called", async () => {
  const cleanup = new Cleanup();
  let count = 0;
  cleanup.defer("once", () => {
    count += 1;
  });

  await Promise.all([cleanup.run(), cleanup.run()]);
  await cleanup.run();
  expect(count).toBe(1);
});

test("something undone early is not undone again", async () => {
  const cleanup = new Cleanup();
  let count = 0;
  const undo = cleanup.defer("early", () => {
    count += 1;
  });

  await undo();
  await undo();
  await cleanup.run();
  expect(count).toBe(1);
});

test("what registers after the end began is undone at once and its owner is told", async () => {
  const cleanup = new Cleanup();
  const end = cleanup.run(new Error("interrupted"));
  const done: string[] = [];

  expect(() => cleanup.defer("late", () => void done.push("late"))).toThrow("stopping: late");
  await end;
  expect(done).toEqual(["late"]);
  expect(cleanup.signal.reason).toEqual(new Error("interrupted"));
});

test("an undo that hangs is given up and the others still run", async () => {
  const cleanup = new Cleanup({ undoLimitMs: 10 });
  const done: string[] = [];
  cleanup.defer("other", () => void done.push("other"));
  cleanup.defer("hanging", () => new Promise(() => undefined));

  await expect(cleanup.run()).rejects.toThrow("hanging: took longer than 10 ms");
  expect(done).toEqual(["other"]);
});
