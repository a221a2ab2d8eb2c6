import { describeThrown, Failure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { orAborted, whenAborted } from "../sync/deadlines.ts";
import { noAnswer, type Peer, unreachable } from "./session.ts";

/** Pause before a peer is tried again: a try at a socket without a listener costs nothing. */
export const RETRY_MS = 100;
/** Longest pause before one is tried again that breaks its protocol: twice as long each time, up to this. */
const LONGEST_RETRY_MS = 10_000;
/** A peer that has not greeted us by then is dialled again, which depends on no caller's deadline. */
const GREETING_MS = 5_000;

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
  /**
   * After the first call, connects again by itself whenever the connection is lost, so many milliseconds after this
   * many failures in a row; default, and where it gives undefined, with the next call.
   */
  readonly retryMs?: ((failures: number) => number | undefined) | undefined;
  readonly clock?: Pick<Clock, "sleep"> | undefined;
}

/** Opens nothing yet: the first call connects. */
export function shareConnection<Of extends Connection>(
  options: SharedConnectionOptions<Of>,
): SharedConnection<Of> {
  const { peer, logger, clock = systemClock } = options;
  const closing = new AbortController();
  let current: Promise<Of> | undefined;
  let greeting = new AbortController();
  let refusalMs = RETRY_MS;
  let failures = 0;
  let isWaiting = false;

  /** No caller's signal ends the attempt: its failure would be the others' too. */
  const shared = (): Promise<Of> => {
    if (closing.signal.aborted) return Promise.reject(closing.signal.reason);
    if (current !== undefined) return current;
    const attempt = new AbortController();
    const greeted = new AbortController();
    greeting = attempt;
    clock.sleep(GREETING_MS, greeted.signal).then(
      () => attempt.abort(),
      () => undefined,
    );
    const connecting = options.connect(attempt.signal).finally(() => greeted.abort());
    current = connecting;
    connecting.then(
      (connection) => {
        failures = 0;
        // It may be lost already, by what came behind the greeting.
        whenAborted(connection.lost, () => again(connection.lost.reason));
        options.onConnected?.(connection);
      },
      (why: unknown) => (attempt.signal.aborted ? void retry() : again(why)),
    );
    return connecting;
  };
  const again = (why: unknown): void => {
    const isAway = why instanceof Failure && why.code === "dataplane-unavailable";
    void (isAway ? retry() : refuse(why));
  };
  const retry = async (): Promise<void> => {
    current = undefined;
    refusalMs = RETRY_MS;
    failures += 1;
    const pauseMs = options.retryMs?.(failures);
    if (closing.signal.aborted || isWaiting || pauseMs === undefined) return;
    isWaiting = true;
    await clock.sleep(pauseMs, closing.signal).catch(() => undefined);
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
    if (options.retryMs?.(1) !== undefined) await shared().catch(() => undefined);
  };
  return {
    connection: (signal) =>
      orAborted(shared(), signal, () => noAnswer(peer, "the connection's greeting", signal)),
    close: () => {
      closing.abort(unreachable(peer, "we closed the connection"));
      greeting.abort(closing.signal.reason);
      current?.then(
        (connection) => connection.close(),
        () => undefined,
      );
    },
  };
}
