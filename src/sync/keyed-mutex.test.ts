import { describe, expect, it } from "vitest";
import { KeyedMutex } from "./keyed-mutex.ts";

/** A task that runs until `end` is called. */
function held(): { readonly task: () => Promise<void>; readonly end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { task: () => promise, end: resolve };
}

const request = (what: string, signal?: AbortSignal) => ({
  key: "x",
  what,
  ...(signal === undefined ? {} : { signal }),
});

describe("tasks of the same key", () => {
  it("run one after the other, in order, also after a failure", async () => {
    const locks = new KeyedMutex();
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
      locks.run(request("a"), task("a", true)),
      locks.run(request("b"), task("b")),
      locks.run(request("c"), task("c")),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
  });

  it("leave the key idle when the last of them ends", async () => {
    const locks = new KeyedMutex();
    expect(locks.whenIdle("x")).toBeUndefined();
    const [one, two] = [held(), held()];
    const running = [locks.run(request("one"), one.task), locks.run(request("two"), two.task)];
    let isOver = false;
    const over = locks.whenIdle("x")?.then(() => {
      isOver = true;
    });
    one.end();
    await running[0];
    expect(isOver).toBe(false);
    two.end();
    await Promise.all([...running, over]);
    expect(locks.whenIdle("x")).toBeUndefined();
  });

  it("do not delay another key", async () => {
    const locks = new KeyedMutex();
    const { task, end } = held();
    const first = locks.run(request("first"), task);
    expect(await locks.run({ key: "y", what: "other" }, async () => 7)).toBe(7);
    end();
    await first;
  });

  it("give up when their signal fires while they wait, and those behind still wait for the first", async () => {
    const locks = new KeyedMutex();
    const { task, end } = held();
    const log: string[] = [];
    const first = locks.run(request("first"), async () => {
      await task();
      log.push("first");
    });
    const giveUp = new AbortController();
    const second = locks.run(request("second", giveUp.signal), async () => log.push("second"));
    const third = locks.run(request("third"), async () => log.push("third"));
    giveUp.abort(new Error("too late"));
    await expect(second).rejects.toMatchObject({
      code: "busy",
      message: expect.stringContaining("second timed out while first is still running"),
    });
    end();
    await Promise.all([first, third]);
    expect(log).toEqual(["first", "third"]);
  });

  it("learn at a timeout what holds the lock, not what waits ahead of them", async () => {
    const locks = new KeyedMutex();
    const { task, end } = held();
    const first = locks.run(request("first"), task);
    const second = locks.run(request("second"), async () => undefined);
    const third = locks.run(
      request("third", AbortSignal.abort()),
      async () => "ran",
      (_busy, holder) => holder,
    );
    expect(await third).toBe("first");
    end();
    await Promise.all([first, second]);
  });

  it("wait for the timeout handler of one ahead, and the holder does not", async () => {
    const locks = new KeyedMutex();
    const [first, instead] = [held(), held()];
    const log: string[] = [];
    const running = locks.run(request("first"), first.task);
    const begun = Promise.withResolvers<void>();
    const late = locks.run(
      request("late", AbortSignal.abort()),
      async () => undefined,
      async () => {
        begun.resolve();
        await instead.task();
        log.push("instead");
      },
    );
    const behind = locks.run(request("behind"), async () => log.push("behind"));
    await begun.promise;
    first.end();
    await running;
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual([]);
    instead.end();
    await Promise.all([late, behind]);
    expect(log).toEqual(["instead", "behind"]);
  });

  it("run at once where the lock is free, even with a signal that has fired", async () => {
    const locks = new KeyedMutex();
    expect(await locks.run(request("late", AbortSignal.abort()), async () => "ran")).toBe("ran");
    expect(await locks.run(request("late", AbortSignal.abort()), async () => "ran")).toBe("ran");
  });
});
