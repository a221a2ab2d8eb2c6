/**
 * In which order the ADDs of one socket came. Kubelet gives a sandbox up before it makes the next, but the given-up
 * one's ADD may go on here, its caller killed, and wait longer for kubelet's word than the next one's does: it must not
 * take that one for an older sandbox.
 */
export class AddOrder {
  #arrivals = 0;
  /** Arrivals of those that are not over, in their order. */
  readonly #running = new Set<number>();
  /** By socket path, the latest arrival that took it; kept only while an earlier one is running. */
  readonly #latest = new Map<string, number>();

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

  #forget(): void {
    const [earliest = Number.POSITIVE_INFINITY] = this.#running;
    for (const [socketPath, arrival] of this.#latest) {
      if (arrival <= earliest) this.#latest.delete(socketPath);
    }
  }
}
