import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../sync/clock.ts";
import type { Allocate } from "./allocation-answer.ts";

/**
 * The Allocate calls that are being answered. kubelet closes its connection when the device list ends, and fails for
 * good the pod whose call that cuts off; so they have to end before the list does.
 */
export class RunningCalls {
  readonly #running = new Set<Promise<unknown>>();

  /** The same, but known to {@link RunningCalls.over} while it runs. */
  track(allocate: Allocate): Allocate {
    return async (devices, signal) => {
      const call = allocate(devices, signal);
      this.#running.add(call);
      try {
        return await call;
      } finally {
        this.#running.delete(call);
      }
    };
  }

  /**
   * Waits until no call is running, for a time.
   * @returns whether none is
   */
  async over(clock: Clock, limitMs: number): Promise<boolean> {
    if (this.#running.size === 0) return true;
    const inTime = new AbortController();
    const late = clock.sleep(limitMs, inTime.signal).then(
      () => true,
      // Rejects only because nobody waits for it any more.
      () => false,
    );
    let isLate = false;
    while (this.#running.size > 0 && !isLate) {
      isLate = await Promise.race([late, Promise.allSettled(this.#running).then(() => false)]);
      // The answer is written a few steps after it is there.
      await nextTurn();
    }
    inTime.abort();
    return this.#running.size === 0;
  }
}
