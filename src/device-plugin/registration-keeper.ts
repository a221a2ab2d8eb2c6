import { describeThrown } from "../failure/failure.ts";
import { lookAtSockets, type SocketSight, socketIdentity } from "../kubelet/restart-watch.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";

/** A running server on the plugin's socket. */
export interface ListeningPlugin {
  /** Ends its streams and calls, and removes its socket. */
  close(): Promise<void>;
}

/** What the keeper keeps, and by what means. */
export interface RegistrationKeeperOptions {
  readonly resource: string;
  readonly ownSocket: string;
  readonly kubeletSocket: string;
  /** Serves on `ownSocket`; resolves when it answers calls. */
  readonly listen: () => Promise<ListeningPlugin>;
  readonly register: (signal: AbortSignal) => Promise<void>;
  /** How many ListAndWatch streams are open. */
  readonly openStreams: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Waits between attempts in milliseconds; the last one repeats. A new kubelet.sock ends any wait. */
const PAUSES_MS = [0, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/** A registration that held this long counts as good, and kubelet must have opened its stream by then. */
const TRIAL_MS = 10_000;

/**
 * Keeps one plugin registered for life. Told that something may have happened ({@link RegistrationKeeper.look},
 * {@link RegistrationKeeper.streamLost}), it compares what is with what should be: our own socket file in place,
 * kubelet.sock the one we registered at, a stream open. Whatever differs is made anew.
 */
export class RegistrationKeeper {
  readonly #options: RegistrationKeeperOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #server: ListeningPlugin | undefined;
  #ownSocket: string | undefined;
  /** kubelet.sock of the last attempt, and of the last that went well. */
  #tried: string | undefined;
  #registeredWith: string | undefined;
  #registeredAt: number | undefined;
  #registrations = 0;
  #pauses = 0;
  #lastProblem: string | undefined;
  #wake = Promise.withResolvers<void>();
  #dirty = false;

  constructor(options: RegistrationKeeperOptions) {
    this.#options = options;
    this.#running = this.#keep();
  }

  /** Whether kubelet took a registration that holds, as far as we know. */
  get registered(): boolean {
    return this.#registeredAt !== undefined;
  }

  /** How often kubelet took one. */
  get registrations(): number {
    return this.#registrations;
  }

  /** The sockets may have changed. */
  look(): void {
    this.#notify();
  }

  /** kubelet dropped the stream: it died, or took the end of an older stream for the end of this one. */
  streamLost(): void {
    this.#expire("kubelet closed the device list");
    this.#notify();
  }

  /** Stops for good; the socket is gone afterwards. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#notify();
    await this.#running;
    await this.#closeServer();
  }

  async #keep(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      this.#judge(await this.#see());
      if (this.#registeredAt !== undefined) {
        await this.#woken();
        continue;
      }
      await this.#pause();
      if (!signal.aborted) await this.#attempt(await this.#see());
    }
  }

  /** What lies in the directory; one that cannot be read counts as empty, since kubelet is as good as away. */
  #see(): Promise<SocketSight> {
    return lookAtSockets(this.#options).catch((error: unknown) => {
      this.#report("cannot look at the plugin directory", error);
      return { own: undefined, kubelet: undefined };
    });
  }

  /** Finds out whether the registration still holds. */
  #judge(sight: SocketSight): void {
    const { openStreams } = this.#options;
    if (this.#registeredAt === undefined) return;
    if (sight.own === undefined || sight.own !== this.#ownSocket) this.#expire("own socket was removed");
    else if (sight.kubelet !== this.#tried) this.#expire("kubelet's socket is another one");
    else if (openStreams() === 0 && this.#hasHeld(this.#registeredAt)) {
      this.#expire("kubelet never asked for the device list");
    }
  }

  #expire(reason: string): void {
    if (this.#registeredAt === undefined) return;
    if (this.#hasHeld(this.#registeredAt)) this.#pauses = 0;
    this.#registeredAt = undefined;
    this.#options.logger.info({ resource: this.#options.resource, reason }, "registration is void");
  }

  /** Whether its trial is over; a clock that was set back in it ends it too. */
  #hasHeld(registeredAt: number): boolean {
    return Math.abs(this.#options.clock.now() - registeredAt) > TRIAL_MS;
  }

  /** Waits for the next attempt; a kubelet.sock that was not tried yet ends the wait. */
  async #pause(): Promise<void> {
    const isNew = async () => (await this.#see()).kubelet !== this.#tried;
    const over = new AbortController();
    const ms = PAUSES_MS[Math.min(this.#pauses++, PAUSES_MS.length - 1)] ?? 0;
    let elapsed = false;
    const sleep = this.#options.clock.sleep(ms, over.signal).then(
      () => {
        elapsed = true;
      },
      // Rejects only because the wait was ended below.
      () => undefined,
    );
    while (!elapsed && !this.#stop.signal.aborted) {
      if (await isNew()) {
        this.#pauses = 0;
        break;
      }
      await this.#woken(sleep);
    }
    over.abort();
    await sleep;
  }

  async #attempt(sight: SocketSight): Promise<void> {
    const { resource, ownSocket, kubeletSocket, listen, register, clock, logger } = this.#options;
    this.#tried = sight.kubelet;
    try {
      if (sight.kubelet === undefined) throw new Error(`kubelet is not there: no ${kubeletSocket}`);
      if (this.#isStale(sight)) await this.#closeServer();
      if (this.#server === undefined) {
        this.#server = await listen();
        this.#ownSocket = await socketIdentity(ownSocket);
      }
      await register(this.#stop.signal);
      this.#registeredWith = sight.kubelet;
      this.#registeredAt = clock.now();
      this.#registrations += 1;
      this.#lastProblem = undefined;
      logger.info({ resource }, "registered with kubelet");
    } catch (error) {
      this.#report("not registered with kubelet, trying again", error);
    }
  }

  /** Whether to listen anew: the socket file is gone, or another kubelet than before must not meet old streams. */
  #isStale(sight: SocketSight): boolean {
    if (sight.own === undefined || sight.own !== this.#ownSocket) return true;
    return (
      this.#registeredWith !== undefined &&
      sight.kubelet !== undefined &&
      sight.kubelet !== this.#registeredWith
    );
  }

  /** The old server is closed before a new one listens, because closing removes the socket file by its name. */
  async #closeServer(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#ownSocket = undefined;
    this.#registeredWith = undefined;
    await server?.close();
  }

  #notify(): void {
    this.#dirty = true;
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  /** Until told to look (also when told since the last call), or until `orThis` is over. */
  async #woken(orThis?: Promise<void>): Promise<void> {
    if (!this.#dirty) await Promise.race([this.#wake.promise, orThis ?? this.#wake.promise]);
    this.#dirty = false;
  }

  #report(message: string, error: unknown): void {
    const problem = describeThrown(error);
    // The same words every few seconds while kubelet is away would bury everything else.
    const level = problem === this.#lastProblem ? "debug" : "warn";
    this.#lastProblem = problem;
    this.#options.logger[level]({ resource: this.#options.resource, reason: problem }, message);
  }
}
