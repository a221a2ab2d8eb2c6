/**
 * In which order the ADDs of one socket came. Kubelet gives a sandbox up before it makes the next, but the given-up
 * one's ADD may go on here, its caller killed, and wait longer for kubelet's word than the next one's does: it must not
 * take that one for an older sandbox. Nor may it attach anything once a DEL that could not wait for it was answered.
 */
export class AddOrder {
  #arrivals = 0;
  /** Arrivals of those that are not over, in their order. */
  readonly #running = new Set<number>();
  /** By socket path, the latest arrival that took it; kept only while an earlier one is running. */
  readonly #latest = new Map<string, number>();
  /** By attachment, the latest arrival that a DEL has called off; kept only while that or an earlier one is running. */
  readonly #calledOff = new Map<string, number>();

  /** The place of the ADD that came last, for {@link callOff}. */
  get last(): number {
    return this.#arrivals;
  }

  /** Runs an ADD, to be called as soon as it arrives. @param add is given its place, for {@link take} */
  async run<Value>(add: (arrival: number) => Promise<Value>): Promise<Value> {
    this.#arrivals += 1;
    const arrival = this.#arrivals;
    this.#running.add(arrival);
    try {
      return await add(arrival);
    } finally {
      this.#running.delete(arrival);
      this.#forget();
    }
  }

  /** Notes that a running ADD is about to take a socket. @returns false where one that came later has had it */
  take(socketPath: string, arrival: number): boolean {
    if ((this.#latest.get(socketPath) ?? 0) > arrival) return false;
    this.#latest.set(socketPath, arrival);
    return true;
  }

  /**
   * Calls off the ADDs of an attachment that are running.
   * @param arrival the last one that had come when the DEL did: those after it are no business of it
   */
  callOff(attachment: string, arrival: number): void {
    this.#calledOff.set(attachment, Math.max(arrival, this.#calledOff.get(attachment) ?? 0));
    this.#forget();
  }

  /** Whether a running ADD was called off before it noted anything that tells of that. */
  isCalledOff(attachment: string, arrival: number): boolean {
    return (this.#calledOff.get(attachment) ?? 0) >= arrival;
  }

  #forget(): void {
    const [earliest = Number.POSITIVE_INFINITY] = this.#running;
    for (const [socketPath, arrival] of this.#latest) {
      if (arrival <= earliest) this.#latest.delete(socketPath);
    }
    for (const [attachment, arrival] of this.#calledOff) {
      if (arrival < earliest) this.#calledOff.delete(attachment);
    }
  }
}
