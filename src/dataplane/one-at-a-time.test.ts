import { describe, expect, it } from "vitest";
import { OneAtATime } from "./one-at-a-time.ts";

const never = new AbortController().signal;
const tooLate = () => new Error("too late");

describe("tasks of the same key", () => {
  it("run one after the other, in order, also after a failed one", async () => {
    const tasks = new OneAtATime();
    const log: string[] = [];
    const task =
      (name: string, fails = false) =>
      async () => {
        log.push(`${name} begins`);
        await new Promise((resolve) => setImmediate(resolve));
        log.push(`${name} ends`);
        if (fails) throw new Error(name);
      };
    const outcomes = await Promise.allSettled([
      tasks.run("x", never, tooLate, task("a", true)),
      tasks.run("x", never, tooLate, task("b")),
      tasks.run("x", never, tooLate, task("c")),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
  });

  it("do not hold up another key", async () => {
    const tasks = new OneAtATime();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const held = tasks.run("x", never, tooLate, () => gate);
    expect(await tasks.run("y", never, tooLate, async () => 7)).toBe(7);
    open();
    await held;
  });

  it("are left out when their signal fires while they wait, and those behind still wait for the first", async () => {
    const tasks = new OneAtATime();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const log: string[] = [];
    const first = tasks.run("x", never, tooLate, async () => {
      await gate;
      log.push("first");
    });
    const giveUp = new AbortController();
    const second = tasks.run("x", giveUp.signal, tooLate, async () => log.push("second"));
    const third = tasks.run("x", never, tooLate, async () => log.push("third"));
    giveUp.abort();
    await expect(second).rejects.toThrow("too late");
    open();
    await Promise.all([first, third]);
    expect(log).toEqual(["first", "third"]);
  });
});
