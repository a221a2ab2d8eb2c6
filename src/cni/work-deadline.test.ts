import { describe, expect, it } from "vitest";
import type { Clock } from "../sync/clock.ts";
import { WorkDeadline } from "./work-deadline.ts";

/** Time that moves when it is told to. */
class HandClock implements Clock {
  #now = 0;
  readonly #sleepers = new Set<{ readonly at: number; readonly wake: () => void }>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.now();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sleeper = { at: this.#now + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", () => {
        this.#sleepers.delete(sleeper);
        reject(signal.reason);
      });
    });
  }

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    for (const { at, wake } of this.#sleepers) if (at <= this.#now) wake();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("the time that a verb has for its own work", () => {
  it("ends after it was used up", async () => {
    const clock = new HandClock();
    const { signal } = new WorkDeadline({ ms: 100, clock });
    await clock.pass(99);
    expect(signal.aborted).toBe(false);
    await clock.pass(1);
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
  });

  it("stands still while a plugin runs, also when the plugin fails", async () => {
    const clock = new HandClock();
    const deadline = new WorkDeadline({ ms: 100, clock });
    await clock.pass(60);
    expect(
      await deadline.pauseDuring(async () => {
        await clock.pass(1000);
        return 7;
      }),
    ).toBe(7);
    await expect(
      deadline.pauseDuring(async () => {
        await clock.pass(1000);
        throw new Error("it failed");
      }),
    ).rejects.toThrow("it failed");
    expect(deadline.signal.aborted).toBe(false);
    await clock.pass(39);
    expect(deadline.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(deadline.signal.aborted).toBe(true);
  });

  it("does not end any more once it is closed", async () => {
    const clock = new HandClock();
    const deadline = new WorkDeadline({ ms: 100, clock });
    deadline.close();
    await clock.pass(1000);
    expect(deadline.signal.aborted).toBe(false);
  });
});
