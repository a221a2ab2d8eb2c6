import { orAborted } from "../clock/or-aborted.ts";

/** Runs tasks of the same key one after the other, in the order they came; other keys do not wait. */
export class OneAtATime {
  readonly #last = new Map<string, Promise<void>>();

  /** Runs `task` when it is its turn; rejects with `failure()` where the signal fires before that. */
  async run<Value>(
    key: string,
    signal: AbortSignal,
    failure: () => Error,
    task: () => Promise<Value>,
  ): Promise<Value> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const turn = before.then(() => ended);
    this.#last.set(key, turn);
    try {
      await orAborted(before, signal, failure);
      return await task();
    } finally {
      resolve();
      void turn.then(() => {
        if (this.#last.get(key) === turn) this.#last.delete(key);
      });
    }
  }
}
