import { KeyedMutex } from "../../src/sync/keyed-mutex.ts";

/** Some restarts may come before, each of which may take a minute on a busy machine. */
const LIMIT_MS = 240_000;
const KEY = "all";

/** What is done one after the other with a part that many use, such as the switch. */
export class Turns {
  readonly #turns = new KeyedMutex();

  /** Does it once those before are done. @throws Error naming the one that takes too long */
  take<Value>(what: string, task: () => Promise<Value>): Promise<Value> {
    return this.#turns.run(
      { key: KEY, what, signal: AbortSignal.timeout(LIMIT_MS) },
      task,
      (_busy, running) => {
        throw new Error(`${what}: ${running} takes too long`);
      },
    );
  }
}
