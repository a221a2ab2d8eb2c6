import type { Logger } from "../../../logging/logger.ts";
import type { OpenflowClient, OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import type { Clock } from "../../../sync/clock.ts";
import { whenAborted } from "../../../sync/deadlines.ts";
import { keepWatching } from "../../keep-watching.ts";

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
  /** Called with each connection, again after a pause where it gives false. It must not reject. */
  readonly onConnected: (connection: OpenflowConnection) => Promise<boolean>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Keeps a connection to a bridge until the signal fires, and makes the next as soon as the switch accepts it. */
export function watchBridge({ client, onConnected, ...options }: BridgeWatch): Promise<void> {
  const { clock, signal } = options;
  const watch = async (onSeen: () => void) => {
    const connection = await client.connection(signal);
    onSeen();
    const ended = AbortSignal.any([connection.lost, signal]);
    while (!(await onConnected(connection)) && !ended.aborted) {
      await clock.sleep(RETRY_MS, ended).catch(() => undefined);
    }
    await new Promise<void>((resolve) => whenAborted(ended, resolve));
    ended.throwIfAborted();
  };
  const warning = "lost the connection to a bridge with secured ports";
  const pauseMs = (failures: number) => (failures > EAGER_ATTEMPTS ? UNREACHABLE_MS : EAGER_MS);
  return keepWatching(watch, { warning, pauseMs, ...options });
}
