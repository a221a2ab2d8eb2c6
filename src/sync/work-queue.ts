import type { Clock } from "./clock.ts";
import { whenAborted } from "./deadlines.ts";

/** What is worked on, and how failures are retried. */
export interface WorkQueueOptions {
  /** Works on one key. Where it rejects, the key is retried after `backoffMs`. */
  readonly work: (key: string, signal: AbortSignal) => Promise<unknown>;
  /**
   * Milliseconds until the next try after so many failures in a row; undefined gives up until the key is added again.
   * Default 100 ms, doubled with each failure, at most 30 s.
   */
  readonly backoffMs?: (failures: number) => number | undefined;
  /** Called for each failure; `retryMs` is undefined where no retry follows. */
  readonly onFailure?: (key: string, error: unknown, retryMs: number | undefined) => void;
  /** Adds keys at this interval, beginning one interval after the start. */
  readonly resync?: { readonly everyMs: number; readonly keys: () => Iterable<string> };
  /** Keys that are worked on at the same time; default 1. */
  readonly workers?: number;
  readonly clock: Clock;
}

/** Milliseconds: `firstMs` after the first failure, doubled with each further one, at most `maxMs`. */
export function exponentialBackoff(firstMs: number, maxMs: number): (failures: number) => number {
  return (failures) => Math.min(maxMs, firstMs * 2 ** (failures - 1));
}

interface Delayed {
  readonly dueMs: number;
  readonly cancel: AbortController;
}

/**
 * A queue of keys, each of which stands for something to be brought in line with what it should be, in the manner of
 * Kubernetes controllers (client-go's `workqueue`). A key waits once however often it is added; one that is added while
 * it is worked on is worked on once more; no two workers have the same key.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  /** In order. */
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  readonly #delayed = new Map<string, Delayed>();
  readonly #failures = new Map<string, number>();
  /** By key; undefined means all of them. */
  readonly #idle = new Map<string | undefined, PromiseWithResolvers<void>>();
  #signal: AbortSignal | undefined;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  /** Works until the signal fires; resolves when the work that runs then is over. To be called once. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    this.#dispatch();
    await Promise.all([this.#resync(signal), new Promise<void>((resolve) => whenAborted(signal, resolve))]);
    for (const key of [...this.#delayed.keys()]) this.#cancelDelayed(key);
    this.#waiting.clear();
    for (const key of [...this.#idle.keys()]) this.#resolveIdle(key);
    await this.whenIdle();
  }

  /** Has a key worked on as soon as a worker is free; an earlier addAfter is void. */
  add(key: string): void {
    if (this.#signal?.aborted) return;
    this.#cancelDelayed(key);
    this.#waiting.add(key);
    this.#dispatch();
  }

  /** Adds a key after `ms`, or sooner where an earlier call asked for that. */
  addAfter(key: string, ms: number): void {
    if (this.#signal?.aborted || this.#waiting.has(key)) return;
    const { clock } = this.#options;
    const dueMs = clock.monotonic() + ms;
    const other = this.#delayed.get(key);
    if (other !== undefined && other.dueMs <= dueMs) return;
    this.#cancelDelayed(key);
    const cancel = new AbortController();
    this.#delayed.set(key, { dueMs, cancel });
    clock.sleep(ms, cancel.signal).then(
      () => {
        if (!cancel.signal.aborted) this.add(key);
      },
      () => undefined,
    );
  }

  /** Counts a key's failures from 0 again, because something has changed. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /**
   * Resolves when a key, default any, neither waits nor is worked on. What is to be added later, by addAfter or a
   * retry, does not count.
   */
  async whenIdle(key?: string): Promise<void> {
    if (this.#isIdle(key)) return;
    const idle = this.#idle.get(key) ?? Promise.withResolvers<void>();
    this.#idle.set(key, idle);
    await idle.promise;
  }

  #isIdle(key: string | undefined): boolean {
    if (key === undefined) return this.#waiting.size + this.#working.size === 0;
    return !this.#waiting.has(key) && !this.#working.has(key);
  }

  #resolveIdle(key: string | undefined): void {
    if (!this.#isIdle(key)) return;
    this.#idle.get(key)?.resolve();
    this.#idle.delete(key);
  }

  #dispatch(): void {
    const { workers = 1 } = this.#options;
    const signal = this.#signal;
    if (signal === undefined) return;
    for (const key of this.#waiting) {
      if (signal.aborted || this.#working.size >= workers) break;
      if (this.#working.has(key)) continue;
      this.#waiting.delete(key);
      this.#working.add(key);
      void this.#work(key, signal);
    }
  }

  async #work(key: string, signal: AbortSignal): Promise<void> {
    const { work, onFailure, backoffMs = exponentialBackoff(100, 30_000) } = this.#options;
    try {
      await work(key, signal);
      this.#failures.delete(key);
    } catch (error) {
      const failures = (this.#failures.get(key) ?? 0) + 1;
      this.#failures.set(key, failures);
      const retryMs = backoffMs(failures);
      if (retryMs !== undefined) this.addAfter(key, retryMs);
      if (!signal.aborted) onFailure?.(key, error, retryMs);
    } finally {
      this.#working.delete(key);
      this.#dispatch();
      this.#resolveIdle(key);
      this.#resolveIdle(undefined);
    }
  }

  async #resync(signal: AbortSignal): Promise<void> {
    const { resync, clock } = this.#options;
    while (resync !== undefined && !signal.aborted) {
      await clock.sleep(resync.everyMs, signal).catch(() => undefined);
      if (!signal.aborted) for (const key of resync.keys()) this.add(key);
    }
  }

  #cancelDelayed(key: string): void {
    this.#delayed.get(key)?.cancel.abort();
    this.#delayed.delete(key);
  }
}
