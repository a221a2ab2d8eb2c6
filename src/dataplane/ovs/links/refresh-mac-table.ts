import { describeThrown } from "../../../failure/failure.ts";
import type { Logger } from "../../../logging/logger.ts";
import type { Clock } from "../../../sync/clock.ts";

/** Pause between two messages, in milliseconds: about the time that a move takes longer than necessary. */
const PAUSE_MS = 20;
/** Messages for one move: five seconds. A guest is usually at its new place within a second of leaving. */
const MESSAGES = 250;
/** Limit for one message, in milliseconds. */
const LIMIT_MS = 2_000;

/** What {@link MacTableRefresh} works with. */
export interface MacTableRefreshOptions {
  /** Wakes ovs-vswitchd's main thread. It fails once the switch is closed. */
  readonly wake: (bridge: string, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends everything. */
  readonly closing: AbortSignal;
}

/**
 * {@link Dataplane.refreshMacTable}. The switch learns the new place of a MAC from the first frame from there, but
 * cached flows lead to the old one until its main thread applies what was learned. Frames in polling threads do not
 * wake it: it sleeps until it revalidates the cached flows, every half a second (`max-revalidator` in
 * ovs-vswitchd.conf.db(5)). Any message does wake it.
 */
export class MacTableRefresh {
  readonly #options: MacTableRefreshOptions;
  /** Messages still to be sent, by bridge. */
  readonly #left = new Map<string, number>();

  constructor(options: MacTableRefreshOptions) {
    this.#options = options;
  }

  /** Wakes the switch for some seconds from now on. */
  start(bridge: string): void {
    const isRunning = this.#left.has(bridge);
    this.#left.set(bridge, MESSAGES);
    if (!isRunning) void this.#run(bridge);
  }

  /** Never rejects: without it the switch only finds moved guests later. */
  async #run(bridge: string): Promise<void> {
    const { wake, clock, logger, closing } = this.#options;
    try {
      for (let left = MESSAGES; left > 0; left = this.#left.get(bridge) ?? 0) {
        this.#left.set(bridge, left - 1);
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
      this.#left.delete(bridge);
    }
  }
}
