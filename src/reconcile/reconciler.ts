import { distinctDataplanes } from "../attachment/node-context.ts";
import type { Clock } from "../clock/clock.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import { type KubeletView, kubeletView, type PodName, whyIncomplete } from "./kubelet-view.ts";
import { reclaim } from "./reclaim.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";
import { removeOrphanPorts, type SwitchPort } from "./remove-orphan-ports.ts";
import { removeUnknownDirectories } from "./remove-unknown-directories.ts";
import { ensureAttachedPorts, settleUnfinishedPorts } from "./settle-ports.ts";

/** What the reconciler works with. */
export interface ReconcilerOptions extends Omit<ReconcilePass, "stop"> {
  /** Reads PodResources; rejects when it cannot be read, which is not the same as an empty list. */
  readonly listPods: (signal: AbortSignal) => Promise<readonly PodDevices[]>;
  /** The daemon's own pod, where it runs in one. */
  readonly ownPod: PodName | undefined;
  readonly clock: Clock;
}

/** Compares the world with the records at start and now and then, until it is closed. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #stop = new AbortController();
  readonly #pass: ReconcilePass;
  #abandoned: ReadonlySet<string> = new Set();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#pass = { ...options, stop: this.#stop.signal };
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
    const interval = context.config.reclaim.intervalSeconds * 1000;
    while (!this.#stop.signal.aborted) {
      await this.pass();
      await clock.sleep(interval, this.#stop.signal).catch(() => undefined);
    }
  }

  /**
   * One pass. A stage that fails is reported and the others go on; nothing is removed for good unless kubelet's
   * list and the switch's ports could both be read whole.
   */
  async pass(): Promise<void> {
    const pass = this.#pass;
    const passed = pass.observer.passBegan();
    await this.#stage("unfinished ports", () => settleUnfinishedPorts(pass));
    await this.#stage("attached ports", () => ensureAttachedPorts(pass));
    await this.#stage("what is abandoned", async () => {
      const kubelet = await this.#readKubelet();
      if (kubelet === undefined) return;
      const switchPorts = await this.#readSwitches();
      const nowMs = this.#options.clock.now();
      const connected = new Set(
        switchPorts.filter(({ port }) => port.connected).map(({ port }) => port.owner.allocationId),
      );
      this.#abandoned = await reclaim({ kubelet, connected, before: this.#abandoned, nowMs }, pass);
      await removeOrphanPorts(switchPorts, kubelet, pass);
      const ofPorts = new Set(switchPorts.map(({ port }) => port.owner.allocationId));
      await removeUnknownDirectories(ofPorts, nowMs, pass);
    });
    passed();
  }

  async #stage(what: string, work: () => Promise<void>): Promise<void> {
    if (this.#stop.signal.aborted) return;
    try {
      await work();
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#pass.observer.stageFailed(error);
      this.#options.logger.warn(
        { stage: what, reason: describeThrown(error) },
        "a stage of the pass was left out",
      );
    }
  }

  async #readKubelet(): Promise<KubeletView | undefined> {
    const view = kubeletView(await this.#options.listPods(portSignal(this.#pass)));
    const why = whyIncomplete(view, this.#options.ownPod);
    if (why === undefined) return view;
    const { allocations, ports } = this.#options.context.records;
    // With nothing to decide an empty list is no news.
    if (allocations.list().length + ports.list().length > 0) {
      this.#options.logger.warn({ reason: why }, "kubelet's list is not acted upon");
    }
    return undefined;
  }

  async #readSwitches(): Promise<readonly SwitchPort[]> {
    const lists = distinctDataplanes(this.#options.context).map(async (dataplane) =>
      (await dataplane.listPorts(portSignal(this.#pass))).map((port) => ({ dataplane, port })),
    );
    return (await Promise.all(lists)).flat();
  }
}
