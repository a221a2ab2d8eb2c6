import type { Clock } from "../sync/clock.ts";

/**
 * A deadline that can be paused. A verb's own work has one that is paused while a delegated plugin runs: the plugin has
 * its own, and what comes after it, perhaps a roll-back, must still have time.
 */
export class WorkDeadline {
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  readonly #ms: number;
  #leftMs: number;
  #startedAt = 0;
  #pause = new AbortController();

  constructor(options: { readonly ms: number; readonly clock: Clock }) {
    this.#clock = options.clock;
    this.#ms = options.ms;
    this.#leftMs = options.ms;
    this.#run();
  }

  /** Fires when the time is used up. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Pauses the deadline during `work`. */
  async pauseDuring<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#pause.abort();
    this.#leftMs -= this.#clock.monotonic() - this.#startedAt;
    try {
      return await work();
    } finally {
      this.#run();
    }
  }

  /** The signal does not fire any more. */
  close(): void {
    this.#pause.abort();
  }

  #run(): void {
    this.#pause = new AbortController();
    this.#startedAt = this.#clock.monotonic();
    const timeIsUp = () =>
      this.#ended.abort(new DOMException(`nothing complete came within ${this.#ms} ms`, "TimeoutError"));
    // Rejects only when it is paused.
    this.#clock.sleep(Math.max(0, this.#leftMs), this.#pause.signal).then(timeIsUp, () => undefined);
  }
}
