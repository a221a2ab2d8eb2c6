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

/** How the connection is made and who hears of it. */
export interface SharedConnectionOptions<Of extends Connection> {
  readonly peer: Peer;
  readonly connect: (signal: AbortSignal) => Promise<Of>;
  readonly logger: Logger;
  /** Hears of every connection that is made. */
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
  let retryMs = RETRY_MS;
  let isWaiting = false;

  /** No caller's signal ends the attempt: its failure would be the others' too. */
  const shared = (): Promise<Of> => {
    if (closing.signal.aborted) return Promise.reject(closing.signal.reason);
    if (current !== undefined) return current;
    const connecting = options.connect(closing.signal);
    current = connecting;
    const forget = (why: unknown) => {
      if (current === connecting) current = undefined;
      retryMs = isAway(why) ? RETRY_MS : Math.min(2 * retryMs, LONGEST_RETRY_MS);
      if (options.isKept === true) void retry();
    };
    connecting.then((connection) => {
      // It may be lost already, by what came behind the greeting.
      whenAborted(connection.lost, () => {
        const why = connection.lost.reason;
        if (!isAway(why)) logger.warn({ socket: peer.path, reason: describeThrown(why) }, DROPPED);
        forget(why);
      });
      options.onConnected?.(connection);
    }, forget);
    return connecting;
  };
  const retry = async (): Promise<void> => {
    if (closing.signal.aborted || isWaiting) return;
    isWaiting = true;
    try {
      await clock.sleep(retryMs, closing.signal);
      isWaiting = false;
      await shared();
    } catch {
      // Closed, or not reached: then the next try waits already.
    }
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

function isAway(why: unknown): boolean {
  return why instanceof Failure && why.code === "dataplane-unavailable";
}
