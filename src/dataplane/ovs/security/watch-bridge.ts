import type { OpenflowClient, OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import type { Clock } from "../../../sync/clock.ts";
import { whenAborted } from "../../../sync/deadlines.ts";

/** Pause between attempts to reach a switch that starts, in milliseconds: until its flows are back, guests are unrestricted. */
const EAGER_MS = 10;
/** Pause for one that stays unreachable. */
const UNREACHABLE_MS = 500;
const EAGER_ATTEMPTS = 1000;
/** Pause before flows that could not be restored are retried. */
const RETRY_MS = 2000;

/** What {@link watchBridge} works with. */
export interface BridgeWatch {
  readonly client: OpenflowClient;
  readonly clock: Clock;
  /** Called with each connection, again after a pause where it gives false. It must not reject. */
  readonly onConnected: (connection: OpenflowConnection) => Promise<boolean>;
  /** Called once until the next connection when one breaks or cannot be made. */
  readonly onLost: (why: unknown) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Keeps a connection to a bridge until the signal fires, and makes the next as soon as the switch accepts it. */
export async function watchBridge({
  client,
  clock,
  onConnected,
  onLost,
  signal,
}: BridgeWatch): Promise<void> {
  let failures = 0;
  let isAway = false;
  const lose = (why: unknown) => {
    if (!isAway) onLost(why);
    isAway = true;
  };
  while (!signal.aborted) {
    try {
      const connection = await client.connection(signal);
      failures = 0;
      isAway = false;
      const ended = AbortSignal.any([connection.lost, signal]);
      while (!(await onConnected(connection)) && !ended.aborted) {
        await clock.sleep(RETRY_MS, ended).catch(() => undefined);
      }
      await new Promise<void>((resolve) => whenAborted(ended, resolve));
      if (!signal.aborted) lose(connection.lost.reason);
    } catch (thrown) {
      if (signal.aborted) return;
      failures += 1;
      lose(thrown);
    }
    const pauseMs = failures > EAGER_ATTEMPTS ? UNREACHABLE_MS : EAGER_MS;
    await clock.sleep(pauseMs, signal).catch(() => undefined);
  }
}
