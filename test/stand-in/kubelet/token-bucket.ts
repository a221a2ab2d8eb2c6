/** kubelet's limit on PodResources calls: so many a second, with bursts of so many. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #now: () => number;
  #tokens: number;
  #filledAt: number;

  constructor(options: { readonly perSecond: number; readonly burst: number; readonly now?: () => number }) {
    this.#perSecond = options.perSecond;
    this.#burst = options.burst;
    this.#now = options.now ?? Date.now;
    this.#tokens = options.burst;
    this.#filledAt = this.#now();
  }

  /** Takes a token if one is left. */
  take(): boolean {
    const now = this.#now();
    const filled = this.#tokens + ((now - this.#filledAt) / 1_000) * this.#perSecond;
    this.#tokens = Math.min(this.#burst, filled);
    this.#filledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
