import type { OpenflowClient, OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import type { Clock } from "../../../sync/clock.ts";
import { whenAborted } from "../../../sync/deadlines.ts";

/** A switch that starts is awaited at this pace, in milliseconds: until its flows are back, nothing holds guests. */
const EAGER_MS = 10;
/** Pace for one that stays away. */
const PATIENT_MS = 500;
const EAGER_ATTEMPTS = 1000;
/** Pause before a bridge that is there, and could not be served, is served again. */
const AGAIN_MS = 2000;

/** What a watch needs and whom it tells. */
export interface BridgeWatch {
  readonly client: OpenflowClient;
  readonly clock: Clock;
  /**
   * A connection is there, the first or a new one; the next is awaited when it resolves. False asks to be called again
   * with it. It must not reject.
   */
  readonly onConnected: (connection: OpenflowConnection) => Promise<boolean>;
  /** The connection broke, or could not be made; told once until it is there again. */
  readonly onLost: (why: unknown) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Holds a connection to a bridge until the signal fires, and makes the next as soon as the switch takes it. */
export async function watchBridge(watch: BridgeWatch): Promise<void> {
  const { client, clock, signal } = watch;
  let failures = 0;
  let away = false;
  const lose = (why: unknown) => {
    if (!away) watch.onLost(why);
    away = true;
  };
  while (!signal.aborted) {
    try {
      const connection = await client.connection(signal);
      failures = 0;
      away = false;
      const ended = AbortSignal.any([connection.lost, signal]);
      while (!(await watch.onConnected(connection)) && !ended.aborted) {
        await clock.sleep(AGAIN_MS, ended).catch(() => undefined);
      }
      await firing(ended);
      if (!signal.aborted) lose(connection.lost.reason);
    } catch (thrown) {
      if (signal.aborted) return;
      failures += 1;
      lose(thrown);
    }
    const pace = failures > EAGER_ATTEMPTS ? PATIENT_MS : EAGER_MS;
    await clock.sleep(pace, signal).catch(() => undefined);
  }
}

function firing(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => whenAborted(signal, resolve));
}
