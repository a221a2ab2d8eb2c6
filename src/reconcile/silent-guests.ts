import { lstatSync } from "node:fs";
import { allocationDirectory, socketPath } from "../allocation/directory/layout.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";
import { reconnectPorts } from "./settle-ports.ts";

/** What the watch works with. */
export interface SilentGuestsOptions extends Omit<ReconcilePass, "stop"> {
  readonly clock: Clock;
  /** Milliseconds after which a guest's port is made anew for the first time; 0 for never. */
  readonly afterMs: () => number;
  /** Hears of ports that could not be made anew: they are missing, and a look at them must follow. */
  readonly onFailed: (ports: readonly string[]) => void;
}

/** A port of a VM whose guest has never been heard. */
interface Silence {
  /** Inode of the socket; another one is another QEMU's. */
  readonly socket: bigint;
  /** When we first saw that socket, in milliseconds since the epoch. */
  readonly since: number;
  /** With all of its sockets: a port made anew lets the switch's threads pause, and a pod can make sockets for ever. */
  readonly tries: number;
}

/** Each comes twice as late as the one before: with 30 s the last after half an hour. */
const TRIES = 7;
/** Looks within the time before the first try. */
const LOOKS = 6;
const LOOK_MS = { least: 200, most: 5_000 } as const;
/** KubeVirt's pods of VMs; programs in other pods start their devices at once or not at all. */
const VM_POD = /^virt-launcher-/;

/**
 * Has the switch connect once more to VMs whose guest has never been heard. QEMU migrates a virtio-net device together
 * with the state of its link (`virtio_net_post_load_device`): a VM that leaves a node whose switch is dead arrives
 * without a link and keeps none, although its new switch is connected, until that connection is made anew. The switch
 * cannot tell this from a guest whose driver has not started yet, to which a new connection does no harm.
 */
export class SilentGuests {
  readonly #options: SilentGuestsOptions;
  readonly #stop = new AbortController();
  readonly #pass: ReconcilePass;
  /** By the port's name. */
  readonly #silent = new Map<string, Silence>();
  /** Ports whose guest was there once: what it does with its link from then on is its own business. */
  readonly #heard = new Set<string>();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: SilentGuestsOptions) {
    this.#options = options;
    this.#pass = { ...options, stop: this.#stop.signal };
  }

  /** Looks now and then, until it is closed. */
  start(): void {
    this.#loop = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock, afterMs } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const pause = afterMs() === 0 ? LOOK_MS.most : afterMs() / LOOKS;
      await clock
        .sleep(Math.min(LOOK_MS.most, Math.max(LOOK_MS.least, pause)), signal)
        .catch(() => undefined);
      if (afterMs() > 0 && !signal.aborted) await this.look();
    }
  }

  /** One look. Never rejects. */
  async look(): Promise<void> {
    const { clock, afterMs } = this.#options;
    const pass = this.#pass;
    const records = pass.context.records.ports.list().filter(isOfVm);
    this.#forgetAllBut(new Set(records.map(({ portName }) => portName)));
    const due = records.filter((record) => this.#isDue(record, clock.now(), afterMs()));
    if (due.length === 0) return;
    const silent = await this.#stillSilent(due);
    if (silent.size === 0 || pass.stop.aborted) return;
    for (const port of silent) {
      const silence = this.#silent.get(port);
      if (silence !== undefined) this.#silent.set(port, { ...silence, tries: silence.tries + 1 });
    }
    const failed = await reconnectPorts(pass, silent);
    if (failed.size > 0) this.#options.onFailed([...failed]);
  }

  #forgetAllBut(ports: ReadonlySet<string>): void {
    for (const known of [this.#silent, this.#heard]) {
      for (const port of known.keys()) if (!ports.has(port)) known.delete(port);
    }
  }

  #isDue(record: PortRecord, nowMs: number, afterMs: number): boolean {
    const { portName } = record;
    if (this.#heard.has(portName)) return false;
    const socket = this.#socketOf(record);
    const before = this.#silent.get(portName);
    if (socket === undefined) return false;
    if (before?.socket !== socket) {
      this.#silent.set(portName, { socket, since: nowMs, tries: before?.tries ?? 0 });
      return false;
    }
    return before.tries < TRIES && nowMs - before.since >= afterMs * 2 ** before.tries;
  }

  /** Inode of the socket; undefined where there is none, or something else, which a pod may have put there. */
  #socketOf({ allocationId, interfaceName, podName }: PortRecord): bigint | undefined {
    const { root } = this.#options.context.config;
    try {
      const path = socketPath(allocationDirectory(root, allocationId), interfaceName, `pod ${podName}`);
      const status = lstatSync(path, { bigint: true });
      return status.isSocket() ? status.ino : undefined;
    } catch {
      // A file or a link in the place of the directory too, as root of a pod can make one.
      return undefined;
    }
  }

  /** Asks the switches; of one that does not answer nothing is known, and it connects anew when it is back. */
  async #stillSilent(due: readonly PortRecord[]): Promise<ReadonlySet<string>> {
    const { context, logger } = this.#pass;
    const silent = new Set<string>();
    const ofSwitch = Map.groupBy(due, (record) => context.pools.ofPort(record)?.dataplane);
    for (const [dataplane, records] of ofSwitch) {
      if (dataplane === undefined) continue;
      try {
        const ports = await dataplane.inspectPorts(portSignal(this.#pass));
        const byName = new Map(ports.map((port) => [port.name, port]));
        for (const { portName } of records) {
          const port = byName.get(portName);
          if (port === undefined) continue;
          if (port.link === "up" || (port.traffic?.fromGuest.packets ?? 0) > 0) {
            this.#heard.add(portName);
            this.#silent.delete(portName);
          } else silent.add(portName);
        }
      } catch (error) {
        logger.debug({ reason: describeThrown(error) }, "nobody can say which guests are silent");
      }
    }
    return silent;
  }
}

function isOfVm({ state, podName, settings }: PortRecord): boolean {
  return state === "attached" && VM_POD.test(podName) && settings.socketServer !== "switch";
}
