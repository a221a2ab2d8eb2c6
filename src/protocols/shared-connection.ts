import { describeThrown, Failure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { orAborted, whenAborted } from "../sync/deadlines.ts";
import { noAnswer, type Peer, unreachable } from "./session.ts";

/** Pause before a peer is tried again that is away: a try at a socket without a listener costs nothing. */
const RETRY_MS = 100;
/** Longest pause before one is tried again that breaks its protocol: twice as long each time, up to this. */
const LONGEST_RETRY_MS = 10_000;

const DROPPED = "dropped the connection to the switch, which breaks its protocol or does not read";

/** A connection that is of use until it is lost. */
export interface Connection {
  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  readonly lost: AbortSignal;
  close(): void;
}

/** One connection for all callers, made when needed and again after it was lost. */
export interface SharedConnection<Of extends Connection> {
  /**
   * The connection that is up, else a new one.
   * @throws Failure dataplane-timeout when the signal fires, and as the protocol's own connect
   */
  connection(signal: AbortSignal): Promise<Of>;
  /** Ends the connection for good; what is under way fails. */
  close(): void;
}

/** How the connection is made and reported. */
export interface SharedConnectionOptions<Of extends Connection> {
  readonly peer: Peer;
  readonly connect: (signal: AbortSignal) => Promise<Of>;
  readonly logger: Logger;
  /** Called for every connection that is made. */
  readonly onConnected?: ((connection: Of) => void) | undefined;
  /** After the first call, connects again by itself whenever the connection is lost; default with the next call. */
  readonly isKept?: boolean;
  readonly clock?: Pick<Clock, "sleep"> | undefined;
}

/** Opens nothing yet: the first call connects. */
export function shareConnection<Of extends Connection>(
  options: SharedConnectionOptions<Of>,
): SharedConnection<Of> {
  const { peer, logger, clock = systemClock } = options;
  const closing = new AbortController();
  let current: Promise<Of> | undefined;
  let refusalMs = RETRY_MS;
  let isWaiting = false;

  /** No caller's signal ends the attempt: its failure would be the others' too. */
  const shared = (): Promise<Of> => {
    if (closing.signal.aborted) return Promise.reject(closing.signal.reason);
    if (current !== undefined) return current;
    const connecting = options.connect(closing.signal);
    current = connecting;
    connecting.then(
      (connection) => {
        // It may be lost already, by what came behind the greeting.
        whenAborted(connection.lost, () => {
          const why: unknown = connection.lost.reason;
          if (why instanceof Failure && why.code === "dataplane-unavailable") void retry();
          else void refuse(why);
        });
        options.onConnected?.(connection);
      },
      () => void retry(),
    );
    return connecting;
  };
  const retry = async (): Promise<void> => {
    current = undefined;
    refusalMs = RETRY_MS;
    if (closing.signal.aborted || isWaiting || options.isKept !== true) return;
    isWaiting = true;
    await clock.sleep(RETRY_MS, closing.signal).catch(() => undefined);
    isWaiting = false;
    // Where it is closed, or not reached: then the next try waits already.
    await shared().catch(() => undefined);
  };
  /** A peer that breaks its protocol would do so again at once: until the pause is over, callers get the reason. */
  const refuse = async (why: unknown): Promise<void> => {
    logger.warn({ socket: peer.path, reason: describeThrown(why) }, DROPPED);
    current = Promise.reject<Of>(why);
    current.catch(() => undefined);
    const pauseMs = refusalMs;
    refusalMs = Math.min(2 * refusalMs, LONGEST_RETRY_MS);
    await clock.sleep(pauseMs, closing.signal).catch(() => undefined);
    current = undefined;
    if (options.isKept === true) await shared().catch(() => undefined);
  };
  return {
    connection: (signal) =>
      orAborted(shared(), signal, () => noAnswer(peer, "the connection's greeting", signal)),
    close: () => {
      closing.abort(unreachable(peer, "we closed the connection"));
      current?.then(
        (connection) => connection.close(),
        () => undefined,
      );
    },
  };
}
