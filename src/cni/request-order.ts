/** Longer than a request lives: its caller gives up after 110 s, and what it has begun here ends some plugins later. */
const KEPT_MS = 10 * 60_000;

/**
 * In which order the callers of requests began. Kubelet gives a sandbox up before it makes the next, but what was asked
 * for the given-up one may go on here, its caller killed, and wait longer for kubelet's word than the next one's ADD
 * does; or its caller lives on without the runtime that started it, and reaches a daemon that was away after the next
 * one's has. Of two requests that contradict each other the one counts whose caller began later. All times are of
 * {@link RawRequest.startedAtMs}.
 */
export class RequestOrder {
  /** By socket path, the latest ADD that took it. */
  readonly #taken = new Map<string, Taker>();
  /** By name of the attachment's record, its latest DEL. */
  readonly #ended = new Map<string, Began>();

  /**
   * Notes that an ADD is about to take a socket. ADDs of one sandbox do not contradict each other.
   * @returns false where one of another sandbox that began later has had it
   */
  take(socketPath: string, taker: Taker): boolean {
    if (this.isTakenSince(socketPath, taker.startedAtMs)) {
      return this.#taken.get(socketPath)?.containerId === taker.containerId;
    }
    note(this.#taken, socketPath, taker);
    return true;
  }

  /** Whether an ADD has taken a socket that began later than this. */
  isTakenSince(socketPath: string, startedAtMs: number): boolean {
    return isSince(this.#taken.get(socketPath), startedAtMs);
  }

  /** Notes a DEL, whatever becomes of it: nobody waits for an ADD of the attachment that began before. */
  end(attachment: string, startedAtMs: number): void {
    if (!this.isEndedSince(attachment, startedAtMs)) note(this.#ended, attachment, { startedAtMs });
  }

  /** Whether a DEL of an attachment has come that began later than this. */
  isEndedSince(attachment: string, startedAtMs: number): boolean {
    return isSince(this.#ended.get(attachment), startedAtMs);
  }
}

interface Began {
  readonly startedAtMs: number;
}

/** An ADD. */
interface Taker extends Began {
  readonly containerId: string;
}

function isSince(noted: Began | undefined, startedAtMs: number): boolean {
  return noted !== undefined && noted.startedAtMs > startedAtMs;
}

/** The map keeps the order of the notes, and with it, near enough, that of their times. */
function note<Noted extends Began>(noted: Map<string, Noted>, key: string, latest: Noted): void {
  noted.delete(key);
  noted.set(key, latest);
  for (const [oldest, { startedAtMs }] of noted) {
    if (latest.startedAtMs - startedAtMs < KEPT_MS) break;
    noted.delete(oldest);
  }
}
