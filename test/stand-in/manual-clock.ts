import { setImmediate as eventLoop } from "node:timers/promises";
import type { Clock } from "../../src/sync/clock.ts";

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** A clock that only a test advances. */
export class ManualClock implements Clock {
  #ms: number;
  #steppedMs = 0;
  #sleepers: Sleeper[] = [];

  constructor(startMs = 0) {
    this.#ms = startMs;
  }

  now(): number {
    return this.#ms + this.#steppedMs;
  }

  monotonic(): number {
    return this.#ms;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const sleeper = { dueMs: this.#ms + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener(
        "abort",
        () => {
          this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
          reject(signal.reason);
        },
        { once: true },
      );
    });
  }

  /** Sets the node's time ahead, or back; the monotonic time is not changed. */
  step(ms: number): void {
    this.#steppedMs += ms;
  }

  /** Milliseconds until each sleeper wakes, the next one first. */
  get pending(): readonly number[] {
    return this.#sleepers.map(({ dueMs }) => dueMs - this.#ms).sort((one, other) => one - other);
  }

  /** Advances time and wakes sleepers in order; what each does immediately is done before the next wakes. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#ms + ms;
    await eventLoop();
    while (true) {
      const [first] = this.#sleepers.toSorted((one, other) => one.dueMs - other.dueMs);
      if (first === undefined || first.dueMs > endMs) break;
      this.#sleepers = this.#sleepers.filter((sleeper) => sleeper !== first);
      this.#ms = Math.max(this.#ms, first.dueMs);
      first.wake();
      await eventLoop();
    }
    this.#ms = endMs;
  }
}
