import { describe, expect, it } from "vitest";
import { OneAtATime } from "./one-at-a-time.ts";

/** A task that runs until it is told to end. */
function held(): { readonly task: () => Promise<void>; readonly end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { task: () => promise, end: resolve };
}

const turn = (what: string, signal?: AbortSignal) => ({
  key: "x",
  what,
  ...(signal === undefined ? {} : { signal }),
});

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
      tasks.run(turn("a"), task("a", true)),
      tasks.run(turn("b"), task("b")),
      tasks.run(turn("c"), task("c")),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
  });

  it("are over when the last of them is, also for who asks while they run", async () => {
    const tasks = new OneAtATime();
    expect(tasks.whenIdle("x")).toBeUndefined();
    const [one, two] = [held(), held()];
    const running = [tasks.run(turn("one"), one.task), tasks.run(turn("two"), two.task)];
    let isOver = false;
    const over = tasks.whenIdle("x")?.then(() => {
      isOver = true;
    });
    one.end();
    await running[0];
    expect(isOver).toBe(false);
    two.end();
    await Promise.all([...running, over]);
    expect(tasks.whenIdle("x")).toBeUndefined();
  });

  it("do not hold up another key", async () => {
    const tasks = new OneAtATime();
    const { task, end } = held();
    const first = tasks.run(turn("first"), task);
    expect(await tasks.run({ key: "y", what: "other" }, async () => 7)).toBe(7);
    end();
    await first;
  });

  it("are left out when their signal fires while they wait, and those behind still wait for the first", async () => {
    const tasks = new OneAtATime();
    const { task, end } = held();
    const log: string[] = [];
    const first = tasks.run(turn("first"), async () => {
      await task();
      log.push("first");
    });
    const giveUp = new AbortController();
    const second = tasks.run(turn("second", giveUp.signal), async () => log.push("second"));
    const third = tasks.run(turn("third"), async () => log.push("third"));
    giveUp.abort(new Error("too late"));
    await expect(second).rejects.toThrow("too late");
    end();
    await Promise.all([first, third]);
    expect(log).toEqual(["first", "third"]);
  });

  it("are told what runs when they wait in vain, not what waits before them", async () => {
    const tasks = new OneAtATime();
    const { task, end } = held();
    const first = tasks.run(turn("first"), task);
    const second = tasks.run(turn("second"), async () => undefined);
    const third = tasks.run(
      turn("third", AbortSignal.abort()),
      async () => "ran",
      (running) => running,
    );
    expect(await third).toBe("first");
    end();
    await Promise.all([first, second]);
  });

  it("wait for what a late one does instead, and the one that runs does not", async () => {
    const tasks = new OneAtATime();
    const [first, instead] = [held(), held()];
    const log: string[] = [];
    const running = tasks.run(turn("first"), first.task);
    const begun = Promise.withResolvers<void>();
    const late = tasks.run(
      turn("late", AbortSignal.abort()),
      async () => undefined,
      async () => {
        begun.resolve();
        await instead.task();
        log.push("instead");
      },
    );
    const behind = tasks.run(turn("behind"), async () => log.push("behind"));
    await begun.promise;
    first.end();
    await running;
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual([]);
    instead.end();
    await Promise.all([late, behind]);
    expect(log).toEqual(["instead", "behind"]);
  });

  it("run at once where nobody is before them, even with a signal that has fired", async () => {
    const tasks = new OneAtATime();
    expect(await tasks.run(turn("late", AbortSignal.abort()), async () => "ran")).toBe("ran");
    expect(await tasks.run(turn("late", AbortSignal.abort()), async () => "ran")).toBe("ran");
  });
});
