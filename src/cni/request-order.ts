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
  /** By socket path, the start of the latest ADD that took it. */
  readonly #taken = new Map<string, number>();
  /** By name of the attachment's record, the start of its latest DEL. */
  readonly #ended = new Map<string, number>();

  /** Notes that an ADD is about to take a socket. @returns false where one that began later has had it */
  take(socketPath: string, startedAtMs: number): boolean {
    if (this.isTakenSince(socketPath, startedAtMs)) return false;
    note(this.#taken, socketPath, startedAtMs);
    return true;
  }

  /** Whether an ADD has taken a socket that began later than this. */
  isTakenSince(socketPath: string, startedAtMs: number): boolean {
    return (this.#taken.get(socketPath) ?? Number.NEGATIVE_INFINITY) > startedAtMs;
  }

  /** Notes a DEL, whatever becomes of it: nobody waits for an ADD of the attachment that began before. */
  end(attachment: string, startedAtMs: number): void {
    if (!this.isEndedSince(attachment, startedAtMs)) note(this.#ended, attachment, startedAtMs);
  }

  /** Whether a DEL of an attachment has come that began later than this. */
  isEndedSince(attachment: string, startedAtMs: number): boolean {
    return (this.#ended.get(attachment) ?? Number.NEGATIVE_INFINITY) > startedAtMs;
  }
}

/** The map keeps the order of the notes, and with it, near enough, that of their times. */
function note(times: Map<string, number>, key: string, startedAtMs: number): void {
  times.delete(key);
  times.set(key, startedAtMs);
  for (const [oldest, began] of times) {
    if (startedAtMs - began < KEPT_MS) break;
    times.delete(oldest);
  }
}
