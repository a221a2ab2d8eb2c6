/** Work whose answer is good for a while: however many ask, it is done once at a time, and not again before that. */
export class RecentAnswer<Answer> {
  readonly #work: () => Promise<Answer>;
  readonly #goodForMs: number;
  readonly #now: () => number;
  #answer: Promise<Answer> | undefined;
  /** When it was done; infinite while it is under way. */
  #doneAt = Number.POSITIVE_INFINITY;

  /** @param now milliseconds of a clock that is never set back */
  constructor(work: () => Promise<Answer>, goodForMs: number, now: () => number = () => performance.now()) {
    this.#work = work;
    this.#goodForMs = goodForMs;
    this.#now = now;
  }

  /** Whether an answer is under way, or one is there that is still good. */
  get isGood(): boolean {
    return this.#answer !== undefined && this.#now() - this.#doneAt < this.#goodForMs;
  }

  /** The answer of now or of a moment ago; one that failed is good for as long. */
  get(): Promise<Answer> {
    if (this.#answer === undefined || !this.isGood) {
      this.#doneAt = Number.POSITIVE_INFINITY;
      this.#answer = this.#work().finally(() => {
        this.#doneAt = this.#now();
      });
    }
    return this.#answer;
  }
}
