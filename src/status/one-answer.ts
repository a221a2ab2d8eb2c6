/** Work whose answer everybody gets who asks while it runs: however many ask, it is done once at a time. */
export class OneAnswer<Answer> {
  readonly #work: () => Promise<Answer>;
  #running: Promise<Answer> | undefined;

  constructor(work: () => Promise<Answer>) {
    this.#work = work;
  }

  get(): Promise<Answer> {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }
}
