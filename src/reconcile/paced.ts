import type { Clock } from "../sync/clock.ts";

/** What is done, and how often at most. */
export interface PacedOptions {
  readonly act: () => void;
  /** From the first call to the act: what belongs together comes together, milliseconds. */
  readonly settleMs: number;
  /** From one act to the next at least, so that nobody keeps us busy, milliseconds. */
  readonly quietMs: number;
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Acts once for all calls that come close together. */
export class Paced {
  readonly #options: PacedOptions;
  #isCalled = false;
  #isPausing = false;

  constructor(options: PacedOptions) {
    this.#options = options;
  }

  call(): void {
    this.#isCalled = true;
    if (this.#isPausing) return;
    this.#isPausing = true;
    void this.#actSoon().finally(() => {
      this.#isPausing = false;
    });
  }

  async #actSoon(): Promise<void> {
    const { act, settleMs, quietMs, clock, signal } = this.#options;
    while (this.#isCalled) {
      await clock.sleep(settleMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      this.#isCalled = false;
      act();
      await clock.sleep(quietMs, signal).catch(() => undefined);
    }
  }
}
