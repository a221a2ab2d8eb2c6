import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { exponentialBackoff, WorkQueue, type WorkQueueOptions } from "./work-queue.ts";

let clock: ManualClock;
let stop: AbortController;
/** What was worked on, and when. */
let log: string[];

beforeEach(() => {
  clock = new ManualClock();
  stop = new AbortController();
  log = [];
});

const note = (key: string) => log.push(`${key} at ${clock.now()}`);

function started(options: Partial<WorkQueueOptions> = {}): { queue: WorkQueue; over: Promise<void> } {
  const queue = new WorkQueue({ work: async (key) => note(key), clock, ...options });
  return { queue, over: queue.run(stop.signal) };
}

/** Work that lasts until it is ended, by key. */
function held() {
  const running = new Map<string, PromiseWithResolvers<void>>();
  const work = async (key: string) => {
    note(key);
    const end = Promise.withResolvers<void>();
    running.set(key, end);
    await end.promise;
  };
  return { work, end: (key: string) => running.get(key)?.resolve() };
}

describe("a work queue", () => {
  it("works on keys in order, and once on a key added several times", async () => {
    const queue = new WorkQueue({ work: async (key) => note(key), clock });
    for (const key of ["a", "b", "a"]) queue.add(key);
    const over = queue.run(stop.signal);
    await queue.whenIdle();
    expect(log).toEqual(["a at 0", "b at 0"]);
    stop.abort();
    await over;
  });

  it("works once more on a key added while it is being worked on, never twice at once", async () => {
    const { work, end } = held();
    const { queue } = started({ work, workers: 2 });
    queue.add("a");
    queue.add("a");
    queue.add("a");
    expect(log.length).toBe(1);
    end("a");
    await clock.advance(0);
    expect(log.length).toBe(2);
    end("a");
    await queue.whenIdle();
    expect(log.length).toBe(2);
  });

  it("works on as many keys at once as it has workers", async () => {
    const { work, end } = held();
    const { queue } = started({ work, workers: 2 });
    for (const key of ["a", "b", "c"]) queue.add(key);
    expect(log).toEqual(["a at 0", "b at 0"]);
    end("b");
    await clock.advance(0);
    expect(log).toEqual(["a at 0", "b at 0", "c at 0"]);
  });

  it("retries a failed key with growing pauses, and from the first one again after a success", async () => {
    let failing = true;
    const failures: [string, number | undefined][] = [];
    const { queue } = started({
      work: async (key) => {
        note(key);
        if (failing) throw new Error("no");
      },
      backoffMs: exponentialBackoff(100, 300),
      onFailure: (key, _error, retryMs) => failures.push([key, retryMs]),
    });
    queue.add("a");
    await clock.advance(900);
    expect(log).toEqual(["a at 0", "a at 100", "a at 300", "a at 600", "a at 900"]);
    expect(failures.map(([, retryMs]) => retryMs)).toEqual([100, 200, 300, 300, 300]);
    failing = false;
    await clock.advance(300);
    failing = true;
    queue.add("a");
    await clock.advance(100);
    expect(log.slice(5)).toEqual(["a at 1200", "a at 1200", "a at 1300"]);
  });

  it("forgets the failures of a key, retries at once one that is added, and gives up when no pause is left", async () => {
    const retries: (number | undefined)[] = [];
    const { queue } = started({
      work: async () => Promise.reject(new Error("no")),
      backoffMs: (failures) => [100, 200][failures - 1],
      onFailure: (_key, _error, retryMs) => retries.push(retryMs),
    });
    queue.add("a");
    await clock.advance(50);
    queue.forget("a");
    queue.add("a");
    await clock.advance(0);
    expect(retries).toEqual([100, 100]);
    await clock.advance(10_000);
    expect(retries).toEqual([100, 100, 200, undefined]);
    queue.add("a");
    await clock.advance(10_000);
    expect(retries.length).toBe(5);
  });

  it("adds a key later, at the earliest of the requested times", async () => {
    const { queue } = started();
    queue.addAfter("a", 500);
    queue.addAfter("a", 100);
    queue.addAfter("a", 300);
    await clock.advance(1_000);
    expect(log).toEqual(["a at 100"]);
  });

  it("adds its keys at the resync interval, whatever else is added in between", async () => {
    const { queue } = started({ resync: { everyMs: 1_000, keys: () => ["all"] } });
    for (let times = 0; times < 25; times++) {
      queue.add("woken");
      await clock.advance(100);
    }
    expect(log.filter((line) => line.startsWith("all"))).toEqual(["all at 1000", "all at 2000"]);
  });

  it("reports when one key is idle, whatever the others do", async () => {
    const { work, end } = held();
    const { queue } = started({ work, workers: 2 });
    for (const key of ["a", "b"]) queue.add(key);
    const idle = queue.whenIdle("a");
    end("a");
    await idle;
    await queue.whenIdle("never added");
    expect(log).toEqual(["a at 0", "b at 0"]);
  });

  it("ends when its signal fires and the running work is over, and starts no key after that", async () => {
    const { work, end } = held();
    const { queue, over } = started({ work, resync: { everyMs: 1_000, keys: () => ["all"] } });
    queue.add("a");
    queue.add("b");
    queue.addAfter("c", 100);
    stop.abort();
    queue.add("d");
    let isOver = false;
    const ended = over.then(() => {
      isOver = true;
    });
    await clock.advance(2_000);
    expect(isOver).toBe(false);
    end("a");
    await ended;
    expect(log).toEqual(["a at 0"]);
    expect(clock.pending).toEqual([]);
  });
});
