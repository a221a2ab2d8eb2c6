import { join } from "node:path";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { Clock } from "../sync/clock.ts";
import { ArtefactWatch } from "./artefact-watch.ts";
import { type KubeletView, kubeletView, type PodName, whyIncomplete } from "./kubelet-view.ts";
import { openBridges } from "./open-bridges.ts";
import { Paced } from "./paced.ts";
import { PortRetries } from "./port-retries.ts";
import { readSwitches } from "./read-switches.ts";
import { reclaim } from "./reclaim.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";
import { redateRecords } from "./redate-records.ts";
import { removeOrphanPorts } from "./remove-orphan-ports.ts";
import { removeStrays } from "./remove-strays.ts";
import { removeUnknownDirectories } from "./remove-unknown-directories.ts";
import { restoreArtefacts } from "./restore-artefacts.ts";
import { type EachPortOptions, ensureAttachedPorts, settleUnfinishedPorts } from "./settle-ports.ts";
import { SwitchSockets } from "./switch-sockets.ts";

/** What the reconciler works with. */
export interface ReconcilerOptions extends Omit<ReconcilePass, "stop"> {
  /** Reads PodResources; rejects when it cannot be read, which is not the same as an empty list. */
  readonly listPods: (signal: AbortSignal) => Promise<readonly PodDevices[]>;
  /** The daemon's own pod, where it runs in one. */
  readonly ownPod: PodName | undefined;
  readonly clock: Clock;
}

const NAP_MS = 1_000;
/** What others change together they change in this time; our own changes of files are over by then. */
const FILES_SETTLED_MS = 300;
/** Pods come and go, and each changes the files; a look at those of a thousand takes some 15 ms. */
const FILES_QUIET_MS = 5_000;
const PORTS_SETTLED_MS = 50;
/** Somebody may insist on changing a port. */
const PORTS_QUIET_MS = 1_000;
/** Or make bridges one after the other: each has ports that wait for it, and a look at a thousand takes some 0.2 s. */
const ALL_PORTS_QUIET_MS = 750;

/** What is to be looked at before the next pass. */
interface Due {
  /** Names of ports. */
  readonly ports: Set<string>;
  isAllPorts: boolean;
  isFiles: boolean;
}

/** Compares the world with the records at start, when something of it changes, and now and then, until it is closed. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #stop = new AbortController();
  readonly #pass: ReconcilePass;
  readonly #sockets: SwitchSockets;
  readonly #files: ArtefactWatch;
  readonly #portsChanged: Paced;
  readonly #allPortsChanged: Paced;
  readonly #retries: PortRetries;
  #due: Due = nothingDue();
  #wake = new AbortController();
  #abandoned: ReadonlySet<string> = new Set();
  #unknown: ReadonlySet<string> = new Set();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#pass = { ...options, stop: this.#stop.signal };
    this.#sockets = new SwitchSockets({ ...options, onMade: () => this.wake() });
    const { clock, logger, places } = options;
    const paced = { clock, signal: this.#stop.signal };
    const filesChanged = new Paced({
      ...{ ...paced, settleMs: FILES_SETTLED_MS, quietMs: FILES_QUIET_MS },
      act: () => {
        this.#due.isFiles = true;
        this.#wake.abort();
      },
    });
    this.#portsChanged = new Paced({
      ...{ ...paced, settleMs: PORTS_SETTLED_MS, quietMs: PORTS_QUIET_MS },
      act: () => this.#wake.abort(),
    });
    this.#allPortsChanged = new Paced({
      ...{ ...paced, settleMs: PORTS_SETTLED_MS, quietMs: ALL_PORTS_QUIET_MS },
      act: () => this.wake(),
    });
    this.#retries = new PortRetries({
      ...paced,
      onDue: (ports) => {
        for (const port of ports) this.#due.ports.add(port);
        this.#wake.abort();
      },
    });
    this.#files = new ArtefactWatch({
      directories: [places.root, join(places.deviceInfoDirectory, "dp")],
      onChange: () => filesChanged.call(),
      logger,
    });
  }

  /** Begins with a pass at once. */
  start(): void {
    this.#loop = this.#run();
  }

  /**
   * Has the ports of all attachments restored at once, because a switch may have forgotten them. What is abandoned
   * is not looked for: that takes two looks with time between them.
   */
  wake(): void {
    this.#due.isAllPorts = true;
    this.#wake.abort();
  }

  /** Has ports looked at that somebody else changed or removed, `all` where it could be any. */
  disturbed(ports: readonly string[] | "all"): void {
    if (ports === "all") {
      this.#allPortsChanged.call();
      return;
    }
    for (const port of ports) this.#due.ports.add(port);
    this.#portsChanged.call();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wake.abort();
    this.#files.close();
    await this.#sockets.close();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      // First, so that nothing is made between the pass and the watch.
      await this.#stage("watch of the switches' sockets", () => this.#sockets.follow());
      await this.#followFiles();
      await this.pass();
      await this.#rest();
    }
  }

  /** Waits until the next pass, in short naps: the configuration may change the time between two while we wait. */
  async #rest(): Promise<void> {
    const { clock, context } = this.#options;
    const left = (rested: number) => context.config.reclaim.intervalSeconds * 1000 - rested;
    for (let rested = 0; left(rested) > 0 && !this.#stop.signal.aborted; rested += NAP_MS) {
      await clock.sleep(Math.min(NAP_MS, left(rested)), this.#wake.signal).catch(() => undefined);
      if (this.#wake.signal.aborted && !this.#stop.signal.aborted) await this.#attend();
    }
  }

  /** Looks at what is due, and at nothing else. */
  async #attend(): Promise<void> {
    const { isFiles, isAllPorts, ports } = this.#due;
    this.#due = nothingDue();
    this.#wake = new AbortController();
    if (isFiles) {
      await this.#restoreFiles();
      await this.#followFiles();
    }
    if (isAllPorts) {
      this.#retries.startAnew();
      await this.#restorePorts();
    } else if (ports.size > 0) await this.#restorePorts(ports);
  }

  #followFiles(): Promise<void> {
    return this.#stage("watch of directories and device-info", async () => this.#files.follow());
  }

  #restoreFiles(): Promise<void> {
    return this.#stage("directories and device-info", () =>
      restoreArtefacts(this.#pass, this.#options.clock),
    );
  }

  /** @param only names of ports; default all */
  async #restorePorts(only?: ReadonlySet<string>): Promise<void> {
    const options = {
      ...(only === undefined ? {} : { only }),
      isNews: (port: string) => this.#retries.isLast(port),
    };
    const failed = await this.#settlePorts(options);
    await this.#stage("bridges that were held back", () => openBridges(this.#pass));
    this.#retries.tried(only ?? [], failed);
  }

  /** @returns names of the ports that could not be settled */
  async #settlePorts(options: EachPortOptions = {}): Promise<ReadonlySet<string>> {
    const failed = new Set<string>();
    const each = (work: typeof ensureAttachedPorts) => async () => {
      for (const port of await work(this.#pass, options)) failed.add(port);
    };
    await this.#stage("unfinished ports", each(settleUnfinishedPorts));
    await this.#stage("attached ports", each(ensureAttachedPorts));
    this.#pass.observer.portsTried(options.only, failed);
    return failed;
  }

  /**
   * One pass. A stage that fails is reported and the others go on; nothing is removed for good unless kubelet's
   * list and the ports of its switch could both be read whole.
   */
  async pass(): Promise<void> {
    const pass = this.#pass;
    const passed = pass.observer.passBegan();
    this.#retries.startAnew();
    await this.#restoreFiles();
    await this.#settlePorts();
    await this.#stage("bridges that were held back", () => openBridges(pass));
    await this.#stage("what is abandoned", async () => {
      const kubelet = await this.#readKubelet();
      if (kubelet === undefined) return;
      const { switchPorts, silent } = await readSwitches(pass);
      const nowMs = this.#options.clock.now();
      redateRecords(pass.context.records, nowMs);
      const connected = new Set([
        ...switchPorts.filter(({ port }) => port.connected).map(({ port }) => port.owner.allocationId),
        // Of these nobody can say whether a guest is connected.
        ...this.#allocationsOf(silent),
      ]);
      this.#abandoned = await reclaim({ kubelet, connected, before: this.#abandoned, nowMs }, pass);
      await removeOrphanPorts(switchPorts, kubelet, nowMs, pass);
      const ofPorts = new Set(switchPorts.map(({ port }) => port.owner.allocationId));
      // A directory without a record may be of any switch.
      if (silent.size > 0) return;
      this.#unknown = await removeUnknownDirectories(ofPorts, this.#unknown, nowMs, pass);
    });
    await this.#stage("what ports left behind", () => removeStrays(pass));
    await this.#stage("what failed writes left behind", async () => {
      await pass.context.records.allocations.sweep();
      await pass.context.records.ports.sweep();
    });
    passed();
  }

  async #stage(what: string, work: () => Promise<unknown>): Promise<void> {
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

  #allocationsOf(dataplanes: ReadonlySet<Dataplane>): readonly string[] {
    const { records, pools } = this.#options.context;
    return records.allocations
      .list()
      .filter((allocation) => {
        const dataplane = pools.ofAllocation(allocation)?.dataplane;
        return dataplane === undefined ? dataplanes.size > 0 : dataplanes.has(dataplane);
      })
      .map(({ id }) => id);
  }
}

function nothingDue(): Due {
  return { ports: new Set(), isAllPorts: false, isFiles: false };
}
