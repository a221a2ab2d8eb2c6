import { lstatSync } from "node:fs";
import { allocationDirectory, socketPath } from "../allocation/layout.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { type ReconcileScope, stepSignal } from "./reconcile-pass.ts";

/** What the watch works with. */
export interface SilentGuestsOptions {
  readonly scope: ReconcileScope;
  /** Milliseconds after which a silent guest's port is reconnected for the first time; 0 for never. */
  readonly afterMs: number;
  /** Reconnects ports; resolves when each was tried. */
  readonly reconnect: (ports: ReadonlySet<string>) => Promise<void>;
  readonly clock: Clock;
}

/** A VM's port whose guest was never seen. */
interface SilentPort {
  /** Inode of the socket; another one is another QEMU's. */
  readonly socket: bigint;
  /** When we first saw that socket, in milliseconds of the monotonic clock. */
  readonly since: number;
  /** Over all its sockets: making a port pauses the switch's threads, and a pod can make sockets without end. */
  readonly tries: number;
}

/** Each after twice the time of the one before: with 30 s the last after half an hour. */
const MAX_TRIES = 7;
const CHECKS_PER_PERIOD = 6;
const CHECK_MS = { min: 200, max: 5_000 } as const;
/** KubeVirt's pods of VMs; programs in other pods start their devices at once or not at all. */
const VM_POD = /^virt-launcher-/;

/**
 * Reconnects the switch to VMs whose guest was never seen. QEMU migrates a virtio-net device together with the state of
 * its link (`virtio_net_post_load_device`): a VM that leaves a node whose switch is dead arrives without a link and
 * keeps none, although its new switch is connected, until that connection is made again. The switch cannot tell this
 * from a guest whose driver has not started yet, to which a new connection does no harm.
 */
export class SilentGuests {
  readonly #options: SilentGuestsOptions;
  /** By the port's name. */
  readonly #silent = new Map<string, SilentPort>();
  /** Ports whose guest was seen once: what it does with its link from then on is its own business. */
  readonly #seen = new Set<string>();

  constructor(options: SilentGuestsOptions) {
    this.#options = options;
  }

  /** Checks at intervals until the signal fires; resolves when the last check is over. */
  async run(signal: AbortSignal): Promise<void> {
    const { afterMs, clock } = this.#options;
    if (afterMs === 0) return;
    const everyMs = Math.min(CHECK_MS.max, Math.max(CHECK_MS.min, afterMs / CHECKS_PER_PERIOD));
    const resync = { everyMs, keys: () => ["check"] };
    await new WorkQueue({ work: () => this.reconnectSilentGuests(), resync, clock }).run(signal);
  }

  /** One check. */
  async reconnectSilentGuests(): Promise<void> {
    const { scope, clock, reconnect } = this.#options;
    const records = scope.context.records.ports.list().filter(isOfVm);
    const ports = new Set(records.map(({ portName }) => portName));
    for (const known of [this.#silent, this.#seen]) {
      for (const port of known.keys()) if (!ports.has(port)) known.delete(port);
    }
    const due = records.filter((record) => this.#isDue(record, clock.monotonic()));
    const silent = due.length === 0 ? new Set<string>() : await this.#stillSilent(due);
    if (silent.size === 0 || scope.stop.aborted) return;
    for (const port of silent) {
      const known = this.#silent.get(port);
      if (known !== undefined) this.#silent.set(port, { ...known, tries: known.tries + 1 });
    }
    await reconnect(silent);
  }

  #isDue(record: PortRecord, nowMs: number): boolean {
    const { portName } = record;
    if (this.#seen.has(portName)) return false;
    const socket = this.#socketOf(record);
    const known = this.#silent.get(portName);
    if (socket === undefined) return false;
    if (known?.socket !== socket) {
      this.#silent.set(portName, { socket, since: nowMs, tries: known?.tries ?? 0 });
      return false;
    }
    return known.tries < MAX_TRIES && nowMs - known.since >= this.#options.afterMs * 2 ** known.tries;
  }

  /** Inode of the socket; undefined where it is missing or is something else, which a pod may have put there. */
  #socketOf({ allocationId, interfaceName, podName }: PortRecord): bigint | undefined {
    const { root } = this.#options.scope.context.config;
    try {
      const path = socketPath(allocationDirectory(root, allocationId), interfaceName, `pod ${podName}`);
      const status = lstatSync(path, { bigint: true });
      return status.isSocket() ? status.ino : undefined;
    } catch {
      // Root of a pod can put a file or a link in the place of the directory.
      return undefined;
    }
  }

  /** Asks the switches. One that does not answer is left out: it reconnects on its own when it is back. */
  async #stillSilent(due: readonly PortRecord[]): Promise<ReadonlySet<string>> {
    const { scope } = this.#options;
    const silent = new Set<string>();
    const bySwitch = Map.groupBy(due, (record) => scope.context.pools.ofPort(record)?.dataplane);
    for (const [dataplane, records] of bySwitch) {
      if (dataplane === undefined) continue;
      try {
        const states = await dataplane.inspectPorts(stepSignal(scope));
        const byName = new Map(states.map((port) => [port.name, port]));
        for (const { portName } of records) {
          const port = byName.get(portName);
          if (port === undefined) continue;
          if (port.link === "up" || (port.traffic?.fromGuest.packets ?? 0) > 0) {
            this.#seen.add(portName);
            this.#silent.delete(portName);
          } else silent.add(portName);
        }
      } catch (error) {
        scope.logger.debug({ reason: describeThrown(error) }, "cannot check for silent guests");
      }
    }
    return silent;
  }
}

function isOfVm({ state, podName, settings }: PortRecord): boolean {
  return state === "attached" && VM_POD.test(podName) && settings.socketServer !== "switch";
}
