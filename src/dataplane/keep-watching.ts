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
  /** Does not warn of a switch that cannot be reached, because another watch does; default false. */
  readonly isSilentAway?: boolean;
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
  { warning, isSilentAway = false, clock, logger, signal }: WatchOptions,
): Promise<void> {
  let isWarned = false;
  let retryMs = RETRY_MS;
  const onSeen = () => {
    isWarned = false;
    retryMs = RETRY_MS;
  };
  while (!signal.aborted) {
    try {
      await watch(onSeen);
    } catch (thrown) {
      const { code } = toFailure(thrown);
      const isAway = code === "dataplane-unavailable" || code === "dataplane-timeout";
      if (!isAway) retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
      if (!isWarned && !signal.aborted && !(isAway && isSilentAway)) {
        logger.warn({ reason: describeThrown(thrown) }, warning);
        isWarned = true;
      }
    }
    await clock.sleep(retryMs, signal).catch(() => undefined);
  }
}
