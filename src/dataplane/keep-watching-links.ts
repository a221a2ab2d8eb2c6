import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";

/** Pace at which a switch that is away is tried, in milliseconds. */
const RETRY_MS = 250;

/**
 * Watches a switch's links until the signal fires, beginning anew whenever the watch ends; that it does is told once
 * until something is seen again. Never rejects.
 * @param watch one life of the watch; calls `onSeen` when the switch tells something
 */
export async function keepWatchingLinks(
  watch: (onSeen: () => void) => Promise<void>,
  { clock, logger, signal }: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  let isAway = false;
  const onSeen = () => {
    isAway = false;
  };
  while (!signal.aborted) {
    try {
      await watch(onSeen);
    } catch (thrown) {
      if (!isAway && !signal.aborted) {
        logger.warn({ reason: describeThrown(thrown) }, "guests that come or go are not seen for now");
      }
      isAway = true;
    }
    await clock.sleep(RETRY_MS, signal).catch(() => undefined);
  }
}
