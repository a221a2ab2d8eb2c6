import type { Clock } from "../../sync/clock.ts";

/** Work that goes on beside its caller; all of it ends when its owner closes. */
export class Background {
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(clock: Clock, onError: (error: unknown) => void) {
    this.#clock = clock;
    this.#onError = onError;
  }

  /** Fires when no more work is to begin. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get isOver(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Goes on with `work`; what it throws is told of, unless all ends anyway. */
  spawn(work: Promise<void>): void {
    const running = work
      .catch((error: unknown) => {
        if (!this.isOver) this.#onError(error);
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Ends early, without an error, when all ends. */
  async sleep(ms: number): Promise<void> {
    await this.#clock.sleep(ms, this.#stop.signal).catch(() => undefined);
  }

  /** Calls `act` after a while, if that comes. */
  later(ms: number, act: () => void): void {
    this.spawn(
      this.sleep(ms).then(() => {
        if (!this.isOver) act();
      }),
    );
  }

  /** Resolves when all work has ended, and what that began. */
  async close(): Promise<void> {
    this.#stop.abort();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
