import { describeThrown, isSwitchAway, toFailure } from "../failure/failure.ts";
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
  { warning, clock, logger, signal }: WatchOptions,
): Promise<void> {
  let isWarned = false;
  let refusals = 0;
  const onSeen = () => {
    isWarned = false;
    refusals = 0;
  };
  while (!signal.aborted) {
    try {
      await watch(onSeen);
    } catch (thrown) {
      const { code } = toFailure(thrown);
      if (code !== "dataplane-unavailable" && code !== "dataplane-timeout") refusals += 1;
      if (!isWarned && !signal.aborted) {
        logger[isSwitchAway(thrown) ? "debug" : "warn"]({ reason: describeThrown(thrown) }, warning);
        isWarned = true;
      }
    }
    const pauseMs = Math.min(RETRY_MS * 2 ** refusals, LONGEST_RETRY_MS);
    await clock.sleep(pauseMs, signal).catch(() => undefined);
  }
}
