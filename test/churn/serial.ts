import { KeyedMutex } from "../../src/sync/keyed-mutex.ts";

/** Several restarts may come first, each of which may take a minute on a busy machine. */
const LIMIT_MS = 240_000;
const KEY = "all";

/** Tasks on a shared part, such as the switch, one at a time. */
export class Serial {
  readonly #mutex = new KeyedMutex();

  /** Runs the task after those before it. @throws Error naming the one that takes too long */
  run<Value>(what: string, task: () => Promise<Value>): Promise<Value> {
    return this.#mutex.run(
      { key: KEY, what, signal: AbortSignal.timeout(LIMIT_MS) },
      task,
      (_busy, running) => {
        throw new Error(`${what}: ${running} takes too long`);
      },
    );
  }
}
