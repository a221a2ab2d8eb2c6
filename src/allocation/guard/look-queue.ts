import { setImmediate as nextTurn } from "node:timers/promises";
import type { Place } from "./place.ts";

/** A look takes some 50 µs; after so many the event loop is left to others. */
const LOOKS_PER_TURN = 40;

/** Places whose turn it is, looked at one after the other, in the order in which they came. */
export class LookQueue {
  readonly #look: (place: Place) => void;
  readonly #stop: AbortSignal;
  #waiting: Place[] = [];
  #drain: Promise<void> | undefined;

  /** @param look starts a look and returns without waiting for its end; does not throw */
  constructor(look: (place: Place) => void, stop: AbortSignal) {
    this.#look = look;
    this.#stop = stop;
  }

  add(place: Place): void {
    this.#waiting.push(place);
    this.#drain ??= this.#lookAtAll();
  }

  /** Resolves when no place waits. */
  async drained(): Promise<void> {
    await this.#drain;
  }

  async #lookAtAll(): Promise<void> {
    // Nothing is looked at before `#drain` is set: else a look that adds places would start a second one.
    await undefined;
    let looks = 0;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      for (const place of batch) {
        if (!this.#stop.aborted) this.#look(place);
        if (++looks % LOOKS_PER_TURN === 0) await nextTurn();
      }
    }
    // In the step that saw the queue empty: a place that is added later finds nobody at work and starts anew.
    this.#drain = undefined;
  }
}
