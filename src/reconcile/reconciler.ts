import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { PodDirectories } from "../allocation/pod-directories.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { type DirectoryWatch, watchDirectory } from "../files/watch-directory.ts";
import type { Clock } from "../sync/clock.ts";
import { Debouncer } from "../sync/debouncer.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { Reclaim, type ReclaimSources } from "./reclaim.ts";
import { isOfSwitchAway, type ReconcileScope } from "./reconcile-pass.ts";
import { removeStrays } from "./remove-orphans.ts";
import { PortRepair } from "./repair-ports.ts";
import { restoreArtefacts } from "./restore-artefacts.ts";
import { SilentGuests } from "./silent-guests.ts";

/** What the reconciler works with. */
export interface ReconcilerOptions extends Omit<ReconcileScope, "stop">, ReclaimSources {
  readonly directories?: Pick<PodDirectories, "check" | "takeChanged">;
  /** Repairs what claims have beside directories and ports, where there can be claims. */
  readonly repairClaims?: (() => Promise<void>) | undefined;
  readonly clock: Clock;
}

/**
 * Milliseconds that changes may take to settle, and between two reactions at least: a program that changes things
 * without end must not keep us busy.
 */
const DEBOUNCE = {
  /** Checking the files of a thousand pods takes some 15 ms; our own changes of files are over by then. */
  files: { settleMs: 300, quietMs: 5_000 },
  ports: { settleMs: 50, quietMs: 1_000 },
  /** Checking a thousand ports takes some 0.2 s. */
  allPorts: { settleMs: 50, quietMs: 750 },
  /** An ADD moves the socket that it had made within this time; what stays longer was made by a restarted switch. */
  switchSockets: { settleMs: 500, quietMs: 5_000 },
} as const;

/** The kernel may lose a watch's events, so every so many passes check the files without one. */
const PASSES_PER_FILE_CHECK = 10;

/**
 * Brings the node in line with the records:
 * - everything at the start and at the configured interval (`pass`);
 * - all ports when a switch may have forgotten them (`repairAllPorts`, and sockets that a restarted switch made);
 * - single ports when something else changed them (`disturbed`), or their VM's guest stays silent;
 * - directories and device-info when something else changed them.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #scope: ReconcileScope;
  readonly #stop = new AbortController();
  readonly #ports: PortRepair;
  readonly #reclaim: Reclaim;
  /** Of passes and restored files, one at a time; ports are repaired beside it. */
  readonly #queue: WorkQueue;
  readonly #disturbed = new Set<string>();
  readonly #portsChanged: Debouncer;
  readonly #allPortsChanged: Debouncer;
  readonly #watches: DirectoryWatch[] = [];
  /** Passes until files are checked without an event; 0 where there was one, or something was left to do. */
  #passesToFileCheck = 0;
  /** Whether every change of a file is an event. */
  #areFilesWatched = false;
  /** Stages that failed last, and why: a reason is logged once. */
  readonly #failing = new Map<string, string>();
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    const { clock, context } = options;
    this.#scope = { ...options, stop: this.#stop.signal };
    this.#ports = new PortRepair(this.#scope, clock);
    this.#reclaim = new Reclaim(this.#scope, options);
    this.#queue = new WorkQueue({
      work: (task) => (task === "pass" ? this.pass() : this.#restoreFiles()),
      resync: { everyMs: context.config.reclaim.intervalSeconds * 1000, keys: () => ["pass"] },
      clock,
    });
    this.#portsChanged = this.#debouncer("ports", () => {
      void this.#ports.repair(this.#disturbed);
      this.#disturbed.clear();
    });
    this.#allPortsChanged = this.#debouncer("allPorts", () => this.repairAllPorts());
  }

  /** Begins with a pass. */
  start(): void {
    const { clock, context } = this.#options;
    const reconnect = (ports: ReadonlySet<string>) => this.#ports.reconnect(ports);
    const afterMs = context.config.reconnectSilentAfterSeconds * 1000;
    const guests = new SilentGuests({ scope: this.#scope, afterMs, reconnect, clock });
    this.#running = Promise.all([this.#watchAndRun(), guests.run(this.#stop.signal), this.#ports.stopped]);
  }

  /** Repairs all ports at once, because a switch may have forgotten them. */
  repairAllPorts(): void {
    void this.#ports.repairAll();
  }

  /** Repairs ports that something else changed or removed, `all` where it could be any. */
  disturbed(ports: readonly string[] | "all"): void {
    if (ports === "all") {
      this.#allPortsChanged.call();
      return;
    }
    for (const port of ports) this.#disturbed.add(port);
    this.#portsChanged.call();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([...this.#watches.map((watch) => watch.close()), this.#running]);
  }

  /**
   * One pass. A stage that fails is reported and the others continue; nothing is removed for good unless kubelet's
   * list and the ports of its switch could both be read whole.
   */
  async pass(): Promise<void> {
    const { observer } = this.#scope;
    const passed = observer.passBegan();
    if (this.#areFilesDue()) await this.#restoreFiles();
    await this.#stage("ports", () =>
      this.#ports.repairAll({ warnOnFailure: true, onTried: () => observer.progress() }),
    );
    await this.#stage("reclaim", () => this.#reclaim.check(this.#options.clock.now()));
    // In each pass: other programs' files are beside those of claims, so nothing watches them.
    await this.#stage("claims", async () => this.#options.repairClaims?.());
    await this.#stage("leftovers of ports", () => removeStrays(this.#scope));
    passed();
  }

  /** The watches come first, so that no change between a pass and them is missed. */
  async #watchAndRun(): Promise<void> {
    const { places, context } = this.#options;
    const filesChanged = this.#debouncer("files", () => this.#queue.add("files"));
    this.#areFilesWatched = true;
    for (const path of [places.root, join(places.deviceInfoDirectory, "dp")]) {
      this.#watch(path, filesChanged, () => {
        this.#areFilesWatched = false;
      });
    }
    const directories = context.pools.all().flatMap(({ config }) => config.switchSockets ?? []);
    for (const directory of new Set(directories)) {
      const socketsChanged = this.#debouncer("switchSockets", () => {
        if (!this.#hasUnmovedSockets(directory)) return false;
        this.repairAllPorts();
        return true;
      });
      this.#watch(directory, socketsChanged);
    }
    await Promise.all(this.#watches.map(({ ready }) => ready));
    this.#queue.add("pass");
    await this.#queue.run(this.#stop.signal);
  }

  #watch(path: string, changed: Debouncer, onBroken = () => {}): void {
    const onError = (error: unknown) => {
      onBroken();
      this.#options.logger.warn(
        { file: path, reason: describeThrown(error) },
        "cannot watch a directory, its changes are seen at the next pass",
      );
    };
    this.#watches.push(
      watchDirectory({ path, onChange: () => changed.call(), onError, clock: this.#options.clock }),
    );
  }

  /**
   * Whether sockets of attached ports lie where the switch makes them. A program that connects finds no server until
   * they are moved to their pods, and the next pass may be minutes away. An ADD in progress moves its own.
   */
  #hasUnmovedSockets(directory: string): boolean {
    const { logger, context } = this.#options;
    const attached = new Set(
      context.records.ports.list().flatMap(({ state, portName }) => (state === "attached" ? [portName] : [])),
    );
    try {
      return readdirSync(directory).some((name) => attached.has(name));
    } catch (error) {
      if (systemCode(error) !== "ENOENT") {
        logger.warn({ file: directory, reason: describeThrown(error) }, "cannot read the switch's sockets");
      }
      return false;
    }
  }

  #debouncer(name: keyof typeof DEBOUNCE, act: () => unknown): Debouncer {
    return new Debouncer({
      ...DEBOUNCE[name],
      act,
      clock: this.#options.clock,
      signal: this.#stop.signal,
    });
  }

  #areFilesDue(): boolean {
    const hasChanged = this.#options.directories?.takeChanged() === true;
    this.#passesToFileCheck -= 1;
    return hasChanged || !this.#areFilesWatched || this.#passesToFileCheck < 0;
  }

  #restoreFiles(): Promise<void> {
    const { directories, clock } = this.#options;
    this.#passesToFileCheck = 0;
    return this.#stage("directories and device-info", async () => {
      directories?.check();
      if (await restoreArtefacts(this.#scope, clock)) this.#passesToFileCheck = PASSES_PER_FILE_CHECK - 1;
    });
  }

  async #stage(stage: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const { logger } = this.#options;
    try {
      await work();
      if (this.#failing.delete(stage)) logger.info({ stage }, "a stage of the reconcile pass works again");
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#scope.observer.stageFailed(error);
      const reason = describeThrown(error);
      const isKnown = isOfSwitchAway(error, this.#scope) || this.#failing.get(stage) === reason;
      logger[isKnown ? "debug" : "warn"]({ stage, reason }, "a stage of the reconcile pass failed");
      if (!isKnown) this.#failing.set(stage, reason);
    }
  }
}
