import { describeThrown } from "../../../failure/failure.ts";
import type { Logger } from "../../../logging/logger.ts";
import type { Clock } from "../../../sync/clock.ts";

/** Pause between two messages, in milliseconds: about the time that a move takes longer than necessary. */
const PAUSE_MS = 20;
/** Messages for one move: five seconds. A guest is usually at its new place within a second of leaving. */
const MESSAGES = 250;
/** Limit for one message, in milliseconds. */
const LIMIT_MS = 2_000;

/**
 * Makes {@link Dataplane.refreshMacTable}. The switch learns the new place of a MAC from the first frame from there, but
 * cached flows lead to the old one until its main thread applies what was learned. Frames in polling threads do not
 * wake it: it sleeps until it revalidates the cached flows, every half a second (`max-revalidator` in
 * ovs-vswitchd.conf.db(5)). Any message does wake it.
 * @param wake wakes that thread; it fails once the switch is closed
 * @param closing ends everything
 */
export function macTableRefresher(
  wake: (bridge: string, signal: AbortSignal) => Promise<unknown>,
  { clock, logger, closing }: { clock: Clock; logger: Logger; closing: AbortSignal },
): (bridge: string) => void {
  /** Messages still to be sent, by bridge. */
  const left = new Map<string, number>();
  /** Never rejects: without it the switch only finds moved guests later. */
  const run = async (bridge: string): Promise<void> => {
    try {
      for (let count = MESSAGES; count > 0; count = left.get(bridge) ?? 0) {
        left.set(bridge, count - 1);
        await clock.sleep(PAUSE_MS, closing);
        await wake(bridge, AbortSignal.timeout(LIMIT_MS));
      }
    } catch (thrown) {
      if (closing.aborted) return;
      logger.debug(
        { reason: describeThrown(thrown) },
        "could not have the switch apply learned MAC addresses",
      );
    } finally {
      left.delete(bridge);
    }
  };
  return (bridge) => {
    const isRunning = left.has(bridge);
    left.set(bridge, MESSAGES);
    if (!isRunning) void run(bridge);
  };
}
