import { describeThrown } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";

/** Time between two messages, in milliseconds: about what a move then takes longer than it must. */
const PAUSE_MS = 20;
/** For how long, in messages: five seconds. A guest is at its new place within a second of leaving, as a rule. */
const MESSAGES = 250;
/** Time for one of them, in milliseconds. */
const LIMIT_MS = 2_000;

/** What watching works with. */
export interface MoveWatchOptions {
  /** Has ovs-vswitchd's main thread turn once. It fails once the switch is closed. */
  readonly turn: (bridge: string, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends everything. */
  readonly closing: AbortSignal;
}

/**
 * Makes a switch notice where its guests have gone. It learns the new place of a MAC from the first frame that comes
 * from there, but cached flows go on to the old one until its main thread looks at what was learned. Where frames come
 * through polling threads nothing wakes that thread: it sleeps until the cached flows are next looked through, which
 * is every half a second (`max-revalidator` in ovs-vswitchd.conf.db(5)). Any message to it does.
 */
export class MoveWatch {
  readonly #options: MoveWatchOptions;
  /** Messages that are still to be sent, by bridge. */
  readonly #left = new Map<string, number>();

  constructor(options: MoveWatchOptions) {
    this.#options = options;
  }

  /** A guest has left a port of this bridge: watches for some seconds, or so much longer where it did already. */
  begin(bridge: string): void {
    const isWatched = this.#left.has(bridge);
    this.#left.set(bridge, MESSAGES);
    if (!isWatched) void this.#watch(bridge);
  }

  /** Never rejects: without it guests are found later, and that is all. */
  async #watch(bridge: string): Promise<void> {
    const { turn, clock, logger, closing } = this.#options;
    try {
      for (;;) {
        const left = this.#left.get(bridge) ?? 0;
        if (left === 0) return;
        this.#left.set(bridge, left - 1);
        await clock.sleep(PAUSE_MS, closing);
        await turn(bridge, AbortSignal.timeout(LIMIT_MS));
      }
    } catch (thrown) {
      if (closing.aborted) return;
      logger.debug(
        { reason: describeThrown(thrown) },
        "guests that moved are found when the switch gets to it",
      );
    } finally {
      this.#left.delete(bridge);
    }
  }
}
