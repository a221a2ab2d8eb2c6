// A plugin of the container runtime's NRI that follows pods: connected for as long as it runs, whatever the runtime does.
import { describeThrown, Failure, toFailure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";
import { linked, orAborted, whenAborted } from "../../sync/deadlines.ts";
import { CallError, NriConnection } from "./connection.ts";
import { type PluginCall, POD_EVENTS, type PodSandbox } from "./messages.ts";
import { STATUS } from "./ttrpc.ts";

/**
 * What a plugin does. The runtime holds one lock for the whole node while it waits, and drops a plugin that is late, so
 * what takes long is answered in time and goes on behind that: with "deadline exceeded", or for a sandbox that starts with
 * success, for its containers are asked about too. What a function throws the runtime gets as an error.
 */
export interface NriHandler {
  /**
   * All sandboxes that the runtime knows, after each connection: stopped ones too, and several of one pod. One that is
   * missing may still be about to be made. The runtime is answered in time, also where this takes longer; what it throws
   * ends the connection, and another is made.
   */
  synchronize(pods: readonly PodSandbox[]): Promise<void>;
  /** The sandbox has its network namespace and the runtime's own network; no container runs. An error ends the sandbox. */
  runPodSandbox(pod: PodSandbox): Promise<void>;
  /** Before each container of a sandbox. An error fails the container, which kubelet tries again in the same sandbox. */
  createContainer(pod: PodSandbox): Promise<void>;
  /** Its network namespace may be gone, or not be named. Never called for sandboxes older than the runtime's process. */
  stopPodSandbox(pod: PodSandbox): Promise<void>;
  removePodSandbox(pod: PodSandbox): Promise<void>;
}

/** What a plugin is made of. */
export interface NriPluginOptions {
  /** Letters, digits and `_.+-`. */
  readonly name: string;
  /** Two digits: plugins are called in this order. */
  readonly index: string;
  /** Path of the runtime's NRI socket; its directory is to be mounted, for the runtime makes the socket again. */
  readonly socketPath: string;
  readonly handler: NriHandler;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What a plugin has of its runtime, for metrics and for others that depend on it. */
export interface NriState {
  /** The runtime took the registration. */
  readonly registered: boolean;
  /** The handler has all sandboxes: from now on it hears of every new one. */
  readonly synchronized: boolean;
  /** Registrations since the start. */
  readonly registrations: number;
  /** Name and version, for example `containerd v2.2.9`; undefined while it is not registered. */
  readonly runtime: string | undefined;
}

const DISCONNECTED = { registered: false, synchronized: false, runtime: undefined };
/** Between a lost connection and the next try: pods that start meanwhile start without the plugin. */
const RETRY_MS = 500;
/** Longest pause, for a runtime that refuses the plugin. */
const LONGEST_RETRY_MS = 30_000;
/** What runtimes give a plugin by default: for its registration, and for each call. */
const REGISTRATION_MS = 5_000;
const REQUEST_MS = 2_000;
/** An answer is sent so much earlier than the runtime drops the plugin. */
const MARGIN_MS = 300;
/** More sandboxes than any node has, also with the stopped ones. */
const PODS_MAX = 20_000;

/** See {@link NriPluginOptions}. */
export class NriPlugin {
  readonly #options: NriPluginOptions;
  #state: NriState = { ...DISCONNECTED, registrations: 0 };

  constructor(options: NriPluginOptions) {
    this.#options = options;
  }

  get state(): NriState {
    return this.#state;
  }

  /** Stays connected until the signal fires, and resolves then. */
  async run(signal: AbortSignal): Promise<void> {
    const { socketPath, clock, logger } = this.#options;
    let pauseMs = RETRY_MS;
    let lastReason: string | undefined;
    while (!signal.aborted) {
      const before = this.#state.registrations;
      const why = await linked(signal, (own) => this.#connect(own));
      this.#state = { ...this.#state, ...DISCONNECTED };
      if (signal.aborted) return;
      const isNew = this.#state.registrations > before || why.message !== lastReason;
      lastReason = why.message;
      logger[isNew ? "warn" : "debug"]({ socket: socketPath, reason: why.message }, "not connected to NRI");
      pauseMs = why.code === "runtime-unavailable" ? RETRY_MS : Math.min(2 * pauseMs, LONGEST_RETRY_MS);
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** One connection, from its start to its end. @returns why it ended */
  async #connect(signal: AbortSignal): Promise<Failure> {
    const { name, index, socketPath, clock, logger } = this.#options;
    const serving = new Serving(this.#options, (change) => {
      if (!connection.lost.aborted) this.#state = { ...this.#state, ...change };
    });
    const connection = new NriConnection({
      socketPath,
      serve: (call, timeoutMs) => serving.serve(call, timeoutMs),
    });
    whenAborted(signal, () => connection.close());
    try {
      await linked(signal, (own) => {
        const limit = new AbortController();
        clock.sleep(REGISTRATION_MS, own).then(
          () => limit.abort(),
          () => undefined,
        );
        return connection.register(name, index, limit.signal);
      });
      this.#state = { ...this.#state, registered: true, registrations: this.#state.registrations + 1 };
      logger.info(
        { socket: socketPath, version: this.#state.runtime },
        "registered with the container runtime",
      );
      await new Promise<void>((resolve) => whenAborted(connection.lost, resolve));
      return serving.problem ?? toFailure(connection.lost.reason);
    } catch (error) {
      return toFailure(error);
    } finally {
      connection.close();
    }
  }
}

/** Answers the calls of one connection. */
class Serving {
  readonly #options: Pick<NriPluginOptions, "handler" | "clock" | "logger">;
  readonly #onState: (change: Partial<NriState>) => void;
  #requestMs = REQUEST_MS;
  #pods: PodSandbox[] = [];
  /** By when all parts of the list have to be answered, on the monotonic clock. */
  #synchronizeByMs: number | undefined;
  /** Why the handler could not be synchronized, after which the runtime ends the connection. */
  problem: Failure | undefined;

  constructor(
    options: Pick<NriPluginOptions, "handler" | "clock" | "logger">,
    onState: (change: Partial<NriState>) => void,
  ) {
    this.#options = options;
    this.#onState = onState;
  }

  async serve(call: PluginCall, timeoutMs = this.#requestMs): Promise<object> {
    const { handler } = this.#options;
    const limitMs = Math.min(timeoutMs, this.#requestMs);
    const byMs = this.#options.clock.monotonic() + Math.max(limitMs - MARGIN_MS, limitMs / 2);
    switch (call.method) {
      case "Configure":
        this.#requestMs = call.requestTimeoutMs ?? REQUEST_MS;
        this.#onState({ runtime: call.runtime });
        return { events: POD_EVENTS };
      case "Synchronize":
        return this.#synchronize(call, byMs);
      case "RunPodSandbox":
        return this.#hook(call, byMs, (pod) => handler.runPodSandbox(pod));
      case "CreateContainer":
        return this.#hook(call, byMs, (pod) => handler.createContainer(pod));
      case "StopPodSandbox":
        return this.#hook(call, byMs, (pod) => handler.stopPodSandbox(pod));
      case "RemovePodSandbox":
        return this.#hook(call, byMs, (pod) => handler.removePodSandbox(pod));
      default:
        return {};
    }
  }

  async #synchronize(
    { pods, more }: Extract<PluginCall, { method: "Synchronize" }>,
    byMs: number,
  ): Promise<object> {
    if (this.#pods.length + pods.length > PODS_MAX)
      throw new CallError(STATUS.resourceExhausted, `more than ${PODS_MAX} sandboxes`);
    this.#pods.push(...pods);
    // All parts of the list share the time of one call.
    this.#synchronizeByMs ??= byMs;
    if (more) return { more };
    const work = this.#options.handler.synchronize(this.#pods.splice(0)).then(
      () => this.#onState({ synchronized: true }),
      (error: unknown) => {
        this.problem = toFailure(error);
        throw error;
      },
    );
    const limit = this.#synchronizeByMs;
    this.#synchronizeByMs = undefined;
    await this.#inTime(work, limit, () => undefined);
    return {};
  }

  async #hook(
    { method, pod }: Extract<PluginCall, { readonly pod: PodSandbox }>,
    byMs: number,
    work: (pod: PodSandbox) => Promise<void>,
  ): Promise<object> {
    const where = `pod ${pod.namespace}/${pod.name}`;
    await this.#inTime(work(pod), byMs, () => {
      this.#options.logger.warn(
        { pod: `${pod.namespace}/${pod.name}`, container: pod.id, verb: method },
        "takes longer than the container runtime waits, and goes on",
      );
      // The sandbox may start: none of its containers is created before the work is done.
      if (method === "RunPodSandbox") return;
      throw new CallError(
        STATUS.deadlineExceeded,
        new Failure({
          code: "busy",
          what: `${method} takes longer than the container runtime waits`,
          where,
          fix: "nothing to do: it goes on, and kubelet tries again",
        }).message,
      );
    });
    return {};
  }

  /** Waits for the work, or calls `late` when time is up; the work goes on then, and its error is logged. */
  async #inTime(work: Promise<void>, byMs: number, late: () => void): Promise<void> {
    const { clock, logger } = this.#options;
    const limit = new AbortController();
    const done = new AbortController();
    clock.sleep(byMs - clock.monotonic(), done.signal).then(
      () => limit.abort(limit),
      () => undefined,
    );
    try {
      await orAborted(work, limit.signal);
    } catch (error) {
      if (error !== limit) throw error;
      work.catch((why: unknown) =>
        logger.error(
          { err: why, reason: describeThrown(why) },
          "work for the container runtime failed after its time was up",
        ),
      );
      late();
    } finally {
      done.abort();
    }
  }
}
