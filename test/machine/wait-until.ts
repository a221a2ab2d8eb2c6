import { Failure } from "../../src/failure/failure.ts";
import { systemClock } from "../../src/sync/clock.ts";

/** How long to wait and what to say. */
export interface WaitOptions {
  /** What is awaited, for the error: "the guest answers". */
  readonly what: string;
  readonly limitMs: number;
  /** Time between two looks; default 20. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /** What to add to the error, for example the tail of a log. */
  readonly detail?: () => string;
}

/**
 * Looks again and again until `look` gives something other than undefined and false, the last time after the limit: a
 * machine that stood still for so long, or whose clock was set, has not waited in vain yet.
 * @throws Failure internal when the time is over; whatever `look` throws
 */
export async function waitUntil<T>(
  look: () => T | undefined | false | Promise<T | undefined | false>,
  options: WaitOptions,
): Promise<T> {
  const end = performance.now() + options.limitMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const isLast = performance.now() >= end;
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (isLast) {
      const detail = options.detail?.() ?? "";
      throw new Failure({
        code: "internal",
        what: `waited ${options.limitMs} ms until ${options.what}, in vain${detail === "" ? "" : `: ${detail}`}`,
      });
    }
    await systemClock.sleep(options.everyMs ?? 20, options.signal);
  }
}
