import { Failure } from "../../failure/failure.ts";
import { type Clock, systemClock } from "../../sync/clock.ts";
import { orAborted, whenAborted } from "../../sync/deadlines.ts";
import { connectVpp, type VppConnection } from "./connection.ts";

/** Between two tries to reach VPP, while nobody calls; a try at a socket without a listener takes no time. */
const RETRY_MS = 100;

/**
 * VPP, reached over one connection that is made with the first call. From then on it is made anew whenever it is
 * lost, also while nobody calls: VPP has forgotten everything when it comes back, and who made it has to hear.
 */
export interface VppClient {
  /**
   * The connection that is up, else a new one. A piece of work keeps to one connection: with the next one VPP may
   * have started anew.
   * @throws Failure dataplane-unavailable, dataplane-timeout when the signal fires, dataplane-protocol
   */
  connection(signal: AbortSignal): Promise<VppConnection>;
  /** Ends the connection; what is under way fails. */
  close(): void;
}

/** Opens nothing yet: the first call connects. */
export function createVppClient(options: {
  /** Path of VPP's API socket, `/run/vpp/api.sock` in the usual packages. */
  readonly path: string;
  /** Hears of every connection that is made. */
  readonly onConnected?: ((connection: VppConnection) => void) | undefined;
  readonly clock?: Clock;
}): VppClient {
  return new Client(options.path, options.onConnected, options.clock ?? systemClock);
}

class Client implements VppClient {
  readonly #path: string;
  readonly #onConnected: ((connection: VppConnection) => void) | undefined;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #connection: Promise<VppConnection> | undefined;
  #isWaiting = false;

  constructor(path: string, onConnected: ((connection: VppConnection) => void) | undefined, clock: Clock) {
    this.#path = path;
    this.#onConnected = onConnected;
    this.#clock = clock;
  }

  connection(signal: AbortSignal): Promise<VppConnection> {
    return orAborted(this.#connect(), signal, () => {
      if (signal.reason instanceof Failure) return signal.reason;
      return new Failure({
        code: "dataplane-timeout",
        what: "VPP did not take a connection in time",
        where: this.#path,
        fix: "check that VPP's main thread is not stuck",
        cause: signal.reason,
      });
    });
  }

  close(): void {
    this.#closing.abort(
      new Failure({ code: "dataplane-unavailable", what: "the connection to VPP was closed by us" }),
    );
    void this.#connection?.then(
      (connection) => connection.close(),
      () => undefined,
    );
  }

  /** All callers share one connection; no caller's signal ends it, because its end would be the others' too. */
  #connect(): Promise<VppConnection> {
    if (this.#closing.signal.aborted) return Promise.reject(this.#closing.signal.reason);
    if (this.#connection !== undefined) return this.#connection;
    const connecting = connectVpp({ path: this.#path }, this.#closing.signal);
    this.#connection = connecting;
    const forget = () => {
      if (this.#connection === connecting) this.#connection = undefined;
      void this.#connectLater();
    };
    connecting.then((connection) => {
      // Lost already where what came behind VPP's greeting was unsound.
      whenAborted(connection.lost, forget);
      this.#onConnected?.(connection);
    }, forget);
    return connecting;
  }

  async #connectLater(): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted || this.#isWaiting) return;
    this.#isWaiting = true;
    try {
      await this.#clock.sleep(RETRY_MS, signal);
      this.#isWaiting = false;
      await this.#connect();
    } catch {
      // Closed, or not reached: then another try is waiting already.
    }
  }
}
