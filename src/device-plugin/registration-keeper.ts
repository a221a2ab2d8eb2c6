// Keeps one plugin registered with kubelet, through restarts of either and however long kubelet is down.
import { describeThrown } from "../failure/failure.ts";
import { socketIdentity } from "../kubelet/socket-identity.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { exponentialBackoff, WorkQueue } from "../sync/work-queue.ts";

/** What registers a plugin, and what shows whether it still is. */
export interface RegistrationKeeperOptions {
  readonly resource: string;
  readonly ownSocket: string;
  readonly kubeletSocket: string;
  /** Serves on `ownSocket`; resolves when it answers calls. Closing it ends its streams and removes its socket. */
  readonly listen: () => Promise<{ close(): Promise<void> }>;
  readonly register: (signal: AbortSignal) => Promise<void>;
  /** How many ListAndWatch streams are open. */
  readonly openStreams: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between checks of the sockets that no event caused. */
  readonly pollMs: number;
}

/** A registration that held this long counts as good, and kubelet must have opened its stream by then. */
const TRIAL_MS = 10_000;

const backoffMs = exponentialBackoff(50, 5_000);

/**
 * Compares what is with what should be, at every event and now and then: our own socket file in place, kubelet.sock
 * the one that we registered at, a stream open. Where one differs, the plugin registers again. A kubelet.sock that was
 * not tried yet ends any back-off.
 */
export class RegistrationKeeper {
  readonly #options: RegistrationKeeperOptions;
  readonly #stop = new AbortController();
  readonly #queue: WorkQueue;
  readonly #running: Promise<void>;
  #server: { close(): Promise<void> } | undefined;
  #ownSocket: string | undefined;
  /** kubelet.sock of the last attempt, and of the last registration. */
  #tried: string | undefined;
  #registeredWith: string | undefined;
  #registeredAtMs: number | undefined;
  #registrations = 0;
  /** Registrations in a row that were lost within their trial. */
  #shortLived = 0;
  #lastProblem: string | undefined;

  constructor(options: RegistrationKeeperOptions) {
    this.#options = options;
    const { clock, pollMs } = options;
    this.#queue = new WorkQueue({
      work: (key, signal) => (key === "check" ? this.#check() : this.#register(signal)),
      backoffMs,
      onFailure: (_key, error) => this.#report(error),
      resync: { everyMs: pollMs, keys: () => ["check"] },
      clock,
    });
    this.#queue.add("register");
    this.#running = this.#queue.run(this.#stop.signal);
  }

  /** Whether kubelet took a registration that holds, as far as we know. */
  get registered(): boolean {
    return this.#registeredAtMs !== undefined;
  }

  /** How often kubelet took one. */
  get registrations(): number {
    return this.#registrations;
  }

  /** The sockets may have changed. */
  check(): void {
    this.#queue.add("check");
  }

  /** kubelet dropped the stream: it died, or took the end of an older stream for the end of this one. */
  streamLost(): void {
    this.#expire("kubelet closed the device list");
  }

  /** Stops for good; the socket is gone afterwards. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#closeServer();
  }

  async #check(): Promise<void> {
    const kubelet = await socketIdentity(this.#options.kubeletSocket);
    if (this.#registeredAtMs === undefined) {
      if (kubelet === this.#tried) return;
      this.#queue.forget("register");
      this.#queue.add("register");
    } else if (await this.#isOwnSocketGone()) this.#expire("own socket was removed");
    else if (kubelet !== this.#tried) this.#expire("kubelet has another socket");
    else if (this.#options.openStreams() === 0 && this.#hasHeld(this.#registeredAtMs)) {
      this.#expire("kubelet never asked for the device list");
    }
  }

  #expire(reason: string): void {
    if (this.#registeredAtMs === undefined) return;
    if (this.#hasHeld(this.#registeredAtMs)) this.#shortLived = 0;
    this.#registeredAtMs = undefined;
    const { resource, logger } = this.#options;
    logger.info({ resource, reason }, "kubelet registration lost, registering again");
    this.#queue.addAfter("register", this.#shortLived === 0 ? 0 : backoffMs(this.#shortLived));
    this.#shortLived += 1;
  }

  #hasHeld(registeredAtMs: number): boolean {
    return this.#options.clock.monotonic() - registeredAtMs > TRIAL_MS;
  }

  /** @throws where kubelet did not register the plugin: the queue tries again */
  async #register(signal: AbortSignal): Promise<void> {
    if (this.#registeredAtMs !== undefined) return;
    const { resource, ownSocket, kubeletSocket, listen, register, clock, logger } = this.#options;
    const kubelet = await socketIdentity(kubeletSocket);
    this.#tried = kubelet;
    if (kubelet === undefined) throw new Error(`kubelet is not there: no ${kubeletSocket}`);
    // Another kubelet than before must not meet old streams.
    const isOtherKubelet = this.#registeredWith !== undefined && kubelet !== this.#registeredWith;
    if (isOtherKubelet || (await this.#isOwnSocketGone())) await this.#closeServer();
    if (this.#server === undefined) {
      this.#server = await listen();
      this.#ownSocket = await socketIdentity(ownSocket);
    }
    await register(signal);
    this.#registeredWith = kubelet;
    this.#registeredAtMs = clock.monotonic();
    this.#registrations += 1;
    this.#lastProblem = undefined;
    logger.info({ resource }, "registered with kubelet");
  }

  async #isOwnSocketGone(): Promise<boolean> {
    const own = await socketIdentity(this.#options.ownSocket);
    return own === undefined || own !== this.#ownSocket;
  }

  /** The old server is closed before a new one listens, because closing removes the socket file by its name. */
  async #closeServer(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#ownSocket = undefined;
    this.#registeredWith = undefined;
    await server?.close();
  }

  #report(error: unknown): void {
    const reason = describeThrown(error);
    // Repeated every few seconds while kubelet is down, this would bury everything else in the log.
    const level = reason === this.#lastProblem ? "debug" : "warn";
    this.#lastProblem = reason;
    const { resource, logger } = this.#options;
    logger[level]({ resource, reason }, "not registered with kubelet, trying again");
  }
}
