import { describeThrown, toFailure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";

/** Pause before a switch is tried again, in milliseconds. */
const RETRY_MS = 250;
/** The longest pause for one that answers and refuses the watch; it doubles each time up to this. */
const LONGEST_RETRY_MS = 60_000;

/** What {@link keepWatching} works with. */
export interface WatchOptions {
  /** Log message: what is not seen while there is no watch. */
  readonly warning: string;
  /** Milliseconds before the next try after so many failures in a row; default 250, more for one that refuses. */
  readonly pauseMs?: (failures: number) => number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Watches a switch until the signal fires, starting again whenever the watch ends; warns once until the switch sends
 * something again. Never rejects.
 * @param watch one connection's watch; calls `onSeen` when the switch sends something
 */
export async function keepWatching(
  watch: (onSeen: () => void) => Promise<void>,
  { warning, pauseMs, clock, logger, signal }: WatchOptions,
): Promise<void> {
  let isWarned = false;
  let failures = 0;
  let refusals = 0;
  const onSeen = () => {
    isWarned = false;
    failures = 0;
    refusals = 0;
  };
  while (!signal.aborted) {
    try {
      await watch(onSeen);
    } catch (thrown) {
      const { code } = toFailure(thrown);
      const isAway = code === "dataplane-unavailable" || code === "dataplane-timeout";
      failures += 1;
      if (!isAway) refusals += 1;
      if (!isWarned && !signal.aborted) {
        logger.warn({ reason: describeThrown(thrown) }, warning);
        isWarned = true;
      }
    }
    const ms = pauseMs?.(failures) ?? Math.min(RETRY_MS * 2 ** refusals, LONGEST_RETRY_MS);
    await clock.sleep(ms, signal).catch(() => undefined);
  }
}
