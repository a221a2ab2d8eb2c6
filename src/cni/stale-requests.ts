/** Longer than a request lives: its caller gives up after 110 s, and the plugins that it began end some time later. */
const KEPT_MS = 10 * 60_000;

/**
 * Recognises an ADD that comes after what ended its attachment: kubelet gave the sandbox up, but the ADD's shim lives on
 * without the runtime that started it, or waits here for kubelet. While a port exists its record says which sandbox is
 * the newer one; this remembers for a while what no record says any more. All times are milliseconds of CLOCK_MONOTONIC
 * at which a request's shim started.
 */
export class StaleRequestFilter {
  readonly #endedAt = new Map<string, number>();

  /** Records that whatever was asked for this key before `startedAtMs` is over. */
  recordEnd(key: string, startedAtMs: number): void {
    if (this.isStale(key, startedAtMs)) return;
    this.#endedAt.delete(key);
    this.#endedAt.set(key, startedAtMs);
    // A map keeps the order of insertion, which is nearly that of the times.
    for (const [oldest, endedAt] of this.#endedAt) {
      if (startedAtMs - endedAt < KEPT_MS) break;
      this.#endedAt.delete(oldest);
    }
  }

  /** Whether a request for this key started before what ended it. */
  isStale(key: string, startedAtMs: number): boolean {
    const endedAt = this.#endedAt.get(key);
    return endedAt !== undefined && endedAt > startedAtMs;
  }
}
