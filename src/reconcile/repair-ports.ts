import { ensureAttachment, portRequest } from "../attachment/ensure-attachment.ts";
import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { type PortRecord, portKey } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { attemptEach, isOfSwitchAway, type ReconcileScope, stepSignal } from "./reconcile-pass.ts";

/** Ports repaired at the same time, so that a switch that has lost them all soon has them back. */
const WORKERS = 16;
/** Milliseconds before each retry. VPP's start-up file, which makes bridges, is executed two seconds after its start. */
const RETRIES_MS = [100, 200, 400, 400, 400, 400, 400, 800, 1_600, 3_200];

/** How all ports are repaired. */
export interface RepairAllOptions {
  /** Warn of each that fails at once, not only when its last retry has failed. */
  readonly warnOnFailure?: boolean;
  /** Called after each. */
  readonly onTried?: () => void;
}

/** Brings ports in line with their records, each independently and with retries. */
export class PortRepair {
  readonly #scope: ReconcileScope;
  readonly #queue: WorkQueue;
  /** Ports whose connection to the guest is to be made again. */
  readonly #reconnects = new Set<string>();
  /** Ports whose last try failed; of some the record may be gone. */
  readonly #failed = new Set<string>();
  /** Ports of which the next failure is worth a warning. */
  readonly #warnNext = new Set<string>();
  readonly #forwarding: SharedRead<void>;
  /** Resolves when the scope's signal has fired and nothing runs any more. */
  readonly stopped: Promise<void>;

  constructor(scope: ReconcileScope, clock: Clock) {
    this.#scope = scope;
    this.#queue = new WorkQueue({
      work: (port) => this.#repair(port),
      backoffMs: (failures) => RETRIES_MS[failures - 1],
      onFailure: (port, error, retryMs) => this.#report(port, error, retryMs === undefined),
      workers: WORKERS,
      clock,
    });
    this.#forwarding = new SharedRead({ read: () => enableForwarding(scope) });
    this.stopped = this.#queue.run(scope.stop);
  }

  /**
   * Repairs all recorded ports, including those whose retries have ended. Resolves when each was tried once, or was seen
   * to need nothing.
   */
  async repairAll({ warnOnFailure = false, onTried = () => {} }: RepairAllOptions = {}): Promise<void> {
    const settled = await settledPorts(this.#scope);
    for (const port of settled) this.#succeeded(port);
    const recorded = this.#scope.context.records.ports.list().map(({ portName }) => portName);
    const ports = new Set([...recorded, ...this.#failed].filter((port) => !settled.has(port)));
    for (const port of ports) {
      this.#queue.forget(port);
      if (warnOnFailure) this.#warnNext.add(port);
    }
    await this.repair(ports, onTried);
  }

  /** Repairs ports of these names. Resolves when each was tried once. */
  async repair(ports: Iterable<string>, onTried: () => void = () => undefined): Promise<void> {
    const tried = [...ports].map((port) => {
      this.#queue.add(port);
      return this.#queue.whenIdle(port).then(onTried);
    });
    await Promise.all(tried);
    if (!this.#scope.stop.aborted) await this.#forwarding.get();
  }

  /** Makes the switch close its connections to these ports' guests and reconnect. Resolves after one try each. */
  async reconnect(ports: Iterable<string>): Promise<void> {
    const names = [...ports];
    for (const port of names) this.#reconnects.add(port);
    await this.repair(names);
  }

  async #repair(port: string): Promise<void> {
    const found = this.#scope.context.records.ports.list().find(({ portName }) => portName === port);
    const isReconnect = this.#reconnects.delete(port);
    if (found !== undefined) await repairPort(this.#scope, found, isReconnect);
    this.#succeeded(port);
  }

  #succeeded(port: string): void {
    this.#failed.delete(port);
    this.#warnNext.delete(port);
    this.#scope.observer.portTried(port, true);
  }

  /** A failure that a retry follows soon, or of a switch that is away, is logged for debugging only. */
  #report(port: string, error: unknown, isLast: boolean): void {
    const { observer, logger } = this.#scope;
    const warnOnFailure = (this.#warnNext.delete(port) || isLast) && !isOfSwitchAway(error, this.#scope);
    this.#failed.add(port);
    observer.portTried(port, false);
    observer.itemFailed(error);
    logger[warnOnFailure ? "warn" : "debug"](
      { port, reason: describeThrown(error) },
      "port cannot be repaired",
    );
  }
}

/**
 * Brings one port in line with its record: makes or repairs an attached one, removes one whose ADD did not succeed or
 * whose DEL is not complete.
 * @param isReconnect the switch must first close its connection to the guest of an attached port
 */
export async function repairPort(
  scope: ReconcileScope,
  port: PortRecord,
  isReconnect = false,
): Promise<void> {
  const signal = stepSignal(scope);
  await scope.locks.run(portLock(port, `repair of interface ${port.interfaceName}`, signal), async () => {
    // A CNI verb may have changed it during the wait.
    const record = scope.context.records.ports.get(portKey(port));
    if (record?.state === "attached") await restore(scope, record, isReconnect, signal);
    // The addresses that `releasing` waits for are released by a CNI executable, with the next request.
    else if (record !== undefined && record.state !== "releasing") await remove(scope, record, signal);
  });
}

async function restore(
  { context, observer, logger }: ReconcileScope,
  record: PortRecord,
  isReconnect: boolean,
  signal: AbortSignal,
): Promise<void> {
  const allocation = context.records.allocations.get(record.allocationId);
  // Its record may be damaged while the pod lives: reclaiming decides, with what kubelet knows.
  if (allocation === undefined) return;
  if (isReconnect) await context.pools.ofPort(record)?.dataplane.removePort(record.portName, signal);
  const { changes } = await ensureAttachment(context, record, allocation, signal);
  if (isReconnect) {
    observer.repaired("silent-guest");
    logger.info(attachmentFields(record), "reconnected a port whose guest was never seen");
  } else if (changes !== undefined) {
    observer.repaired("port");
    observer.portRestored(record, changes);
    logger.warn({ ...attachmentFields(record), reason: changes.join("; ") }, "restored a port");
  }
}

async function remove(
  { context, observer, logger }: ReconcileScope,
  record: PortRecord,
  signal: AbortSignal,
): Promise<void> {
  const left = await removeAttachment(context, record, signal);
  if (left !== undefined) throw left;
  logger.warn({ ...attachmentFields(record), state: record.state }, "removed a port");
  // `attaching` while no ADD holds the lock: the ADD that wrote it failed.
  observer.repaired(record.state === "attaching" ? "unfinished-add" : "late-del");
}

/**
 * Attached ports that need no repair, of switches that can say so at once. A socket that the switch serves is checked
 * with its port; where a switch cannot be read, each port's own repair fails.
 */
async function settledPorts(scope: ReconcileScope): Promise<ReadonlySet<string>> {
  const { records, pools } = scope.context;
  const attached = records.ports
    .list()
    .filter(({ state, settings }) => state === "attached" && settings.socketServer !== "switch");
  const bySwitch = Map.groupBy(attached, (record) => pools.ofPort(record)?.dataplane);
  const settled = [...bySwitch].map(async ([dataplane, ports]) => {
    const requests = ports.map((record) => portRequest(scope.context, record));
    return (await dataplane?.settledPorts?.(requests, stepSignal(scope)).catch(() => [])) ?? [];
  });
  return new Set((await Promise.all(settled)).flat());
}

/** Lets the bridges of every switch forward, now that its ports are as asked. */
async function enableForwarding(scope: ReconcileScope): Promise<void> {
  const enable = async (dataplane: Dataplane) => dataplane.enableForwarding?.(stepSignal(scope));
  const message = "cannot enable forwarding on a bridge";
  await attemptEach(scope, scope.context.pools.dataplanes(), enable, { message });
}
