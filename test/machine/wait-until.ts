import { Failure } from "../../src/failure/failure.ts";
import { systemClock } from "../../src/sync/clock.ts";

/** How long to wait and what to say. */
export interface WaitOptions {
  /** What is awaited, for the error: "the guest answers". */
  readonly what: string;
  /** Default 60 s, which a machine under full load does not use up. */
  readonly limitMs?: number;
  /** Milliseconds between two polls; default 20. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /** What to add to the error, for example the tail of a log. */
  readonly detail?: () => string;
}

/**
 * Polls until `poll` returns something other than undefined and false. It is called once more after the limit, so that a
 * process which was stopped for that long still sees what happened meanwhile.
 * @throws Failure internal when the time is over; whatever `poll` throws
 */
export async function waitUntil<T>(
  poll: () => T | undefined | false | Promise<T | undefined | false>,
  options: WaitOptions,
): Promise<T> {
  const { limitMs = 60_000 } = options;
  const end = performance.now() + limitMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const isLast = performance.now() >= end;
    const seen = await poll();
    if (seen !== undefined && seen !== false) return seen;
    if (isLast) {
      const detail = options.detail?.() ?? "";
      throw new Failure({
        code: "internal",
        what: `not within ${limitMs} ms: ${options.what}${detail === "" ? "" : `: ${detail}`}`,
      });
    }
    await systemClock.sleep(options.everyMs ?? 20, options.signal);
  }
}

/**
 * Repeats an action until it succeeds.
 * @throws Failure internal when the time is over, with what the action threw last
 */
export async function waitUntilSucceeds(
  action: () => Promise<unknown>,
  options: Omit<WaitOptions, "detail">,
): Promise<void> {
  let last: unknown;
  const hasSucceeded = () =>
    action().then(
      () => true,
      (error: unknown) => {
        last = error;
        return false;
      },
    );
  await waitUntil(hasSucceeded, { ...options, detail: () => String(last) });
}
