import type { Clock } from "./clock.ts";

/** What is done, and how often at most. */
export interface DebouncerOptions {
  /** May return false where there was nothing to do: then no quiet time follows. */
  readonly act: () => unknown;
  /** Milliseconds from the first call to the act: calls within them are one. */
  readonly settleMs: number;
  /** Milliseconds from one act to the next at least; default 0. */
  readonly quietMs?: number;
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Acts once for all calls that come close together, and soon again for one that comes after. */
export class Debouncer {
  readonly #options: DebouncerOptions;
  #isCalled = false;
  #isRunning = false;

  constructor(options: DebouncerOptions) {
    this.#options = options;
  }

  call(): void {
    this.#isCalled = true;
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    const { act, settleMs, quietMs = 0, clock, signal } = this.#options;
    while (this.#isCalled && !signal.aborted) {
      await clock.sleep(settleMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      this.#isCalled = false;
      if (act() !== false && quietMs > 0) await clock.sleep(quietMs, signal).catch(() => undefined);
    }
    this.#isRunning = false;
  }
}
