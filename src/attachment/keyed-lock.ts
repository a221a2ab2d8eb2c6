/** Runs work with the same key one after the other, and work with different keys side by side. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const done = Promise.withResolvers<void>();
    this.#tails.set(key, done.promise);
    await before;
    try {
      return await work();
    } finally {
      if (this.#tails.get(key) === done.promise) this.#tails.delete(key);
      done.resolve();
    }
  }
}
