import { setImmediate as nextRound } from "node:timers/promises";
import type { Clock } from "../sync/clock.ts";
import type { Allocate } from "./allocate.ts";

/**
 * The Allocate calls that are being answered. kubelet closes its connection when the device list ends, and fails for
 * good the pod whose call that cuts off; so running calls have to end before the list does.
 */
export class RunningCalls {
  readonly #running = new Set<Promise<unknown>>();

  /** The same call, which {@link RunningCalls.ended} waits for while it runs. */
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
   * Waits until no call is running, for at most `limitMs`.
   * @returns whether none is running
   */
  async ended(clock: Clock, limitMs: number): Promise<boolean> {
    if (this.#running.size === 0) return true;
    const done = new AbortController();
    let isLate = false;
    // Rejects only because it is aborted below.
    const late = clock.sleep(limitMs, done.signal).then(
      () => {
        isLate = true;
      },
      () => undefined,
    );
    while (this.#running.size > 0 && !isLate) {
      await Promise.race([late, Promise.allSettled(this.#running)]);
      // gRPC writes an answer a few steps after the handler has returned it.
      await nextRound();
    }
    done.abort();
    return this.#running.size === 0;
  }
}
