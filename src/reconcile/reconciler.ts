import type { AllocationPlaces } from "../allocation/ensure-allocation.ts";
import type { KeyedLock } from "../attachment/keyed-lock.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import type { Clock } from "../clock/clock.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { Logger } from "../logging/logger.ts";
import { reclaim } from "./reclaim.ts";
import { type PortPass, reconcileRecordedPorts, removeOrphanPorts } from "./reconcile-ports.ts";

/** What the reconciler works with. */
export interface ReconcilerOptions {
  readonly context: NodeContext;
  readonly places: AllocationPlaces;
  readonly lock: KeyedLock;
  /** Reads PodResources; rejects when it cannot be read, which is not the same as an empty list. */
  readonly listPods: (signal: AbortSignal) => Promise<readonly PodDevices[]>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Time for one pass; a switch that hangs must not hold the next one off for ever. */
const PASS_MS = 60_000;

/** Compares the world with the records at start and now and then, until it is closed. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #stop = new AbortController();
  #abandoned: ReadonlySet<string> = new Set();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /** Begins with a pass at once. */
  start(): void {
    this.#loop = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock, context } = this.#options;
    while (!this.#stop.signal.aborted) {
      await this.pass();
      await clock
        .sleep(context.config.reclaim.intervalSeconds * 1000, this.#stop.signal)
        .catch(() => undefined);
    }
  }

  /** One pass. A source that cannot be read leaves out what depends on it and nothing else. */
  async pass(): Promise<void> {
    const { context, lock, logger } = this.#options;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(PASS_MS)]);
    const pass: PortPass = { context, lock, logger, signal };
    try {
      await reconcileRecordedPorts(pass);
      const pods = await this.#options.listPods(signal);
      this.#abandoned = await reclaim(
        { pods, before: this.#abandoned, nowMs: this.#options.clock.now(), places: this.#options.places },
        pass,
      );
      await removeOrphanPorts(pods, pass);
    } catch (error) {
      if (!this.#stop.signal.aborted) logger.warn({ reason: describeThrown(error) }, "pass not finished");
    }
  }
}
