import type { Clock } from "../sync/clock.ts";

/**
 * Bounds a verb's own work. While a delegated plugin runs the time stands still: the plugin has a bound of its own,
 * and what comes after it, a roll-back perhaps, must not find the time used up.
 */
export class WorkDeadline {
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  #leftMs: number;
  #startedAt = 0;
  #pause = new AbortController();

  constructor(options: { readonly ms: number; readonly clock: Clock }) {
    this.#clock = options.clock;
    this.#leftMs = options.ms;
    this.#run();
  }

  /** Fires when the time is used up. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Lets the time stand still during `work`. */
  async pauseDuring<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#pause.abort();
    this.#leftMs -= this.#clock.monotonic() - this.#startedAt;
    try {
      return await work();
    } finally {
      this.#run();
    }
  }

  /** Stops the clock; the signal does not fire any more. */
  close(): void {
    this.#pause.abort();
  }

  #run(): void {
    this.#pause = new AbortController();
    this.#startedAt = this.#clock.monotonic();
    const timeIsUp = () => this.#ended.abort(new DOMException("time for the verb is up", "TimeoutError"));
    // Rejects only when it is paused.
    this.#clock.sleep(Math.max(0, this.#leftMs), this.#pause.signal).then(timeIsUp, () => undefined);
  }
}
