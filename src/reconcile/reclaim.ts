import { removeAllocation } from "../allocation/allocation.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import { allocationFields, attachmentFields } from "../logging/fields.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import type { Records } from "../records/records.ts";
import { type KubeletView, kubeletView, type PodName, whyIncomplete } from "./kubelet-view.ts";
import { planReclaim } from "./plan-reclaim.ts";
import { passSignal, type ReconcileScope } from "./reconcile-pass.ts";
import { removeOrphanPorts, removeUnknownDirectories, type SwitchPort } from "./remove-orphans.ts";

/** What reclaiming asks kubelet with. */
export interface ReclaimSources {
  /** Reads PodResources; rejects when it cannot be read, which is not the same as an empty list. */
  readonly listPods: (signal: AbortSignal) => Promise<readonly PodDevices[]>;
  /** The daemon's own pod, where it runs in one. */
  readonly ownPod: PodName | undefined;
}

/** What the switches of a node hold. */
interface SwitchesView {
  readonly switchPorts: readonly SwitchPort[];
  /** Those whose ports could not be read. */
  readonly unread: ReadonlySet<Dataplane>;
}

/** Removes what no pod holds: only what kubelet's and the switches' complete lists show twice in a row. */
export class Reclaim {
  readonly #scope: ReconcileScope;
  readonly #sources: ReclaimSources;
  /** What no pod held at the check before. */
  #abandoned: ReadonlySet<string> = new Set();
  #unknownDirectories: ReadonlySet<string> = new Set();

  constructor(scope: ReconcileScope, sources: ReclaimSources) {
    this.#scope = scope;
    this.#sources = sources;
  }

  /** One check. @param nowMs milliseconds since the epoch. @throws Failure kubelet-unavailable */
  async check(nowMs: number): Promise<void> {
    const scope = this.#scope;
    const kubelet = await this.#readKubelet();
    if (kubelet === undefined) return;
    const { switchPorts, unread } = await readSwitches(scope);
    redateRecords(scope.context.records, nowMs);
    const connected = new Set([
      ...switchPorts.filter(({ port }) => port.connected).map(({ port }) => port.owner.allocationId),
      // A guest may be connected to any of these.
      ...allocationsOf(unread, scope),
    ]);
    this.#abandoned = await reclaim({ kubelet, connected, before: this.#abandoned, nowMs }, scope);
    await removeOrphanPorts(switchPorts, kubelet, nowMs, scope);
    // A directory without a record may be of any switch.
    if (unread.size > 0) return;
    const ofPorts = new Set(switchPorts.map(({ port }) => port.owner.allocationId));
    this.#unknownDirectories = await removeUnknownDirectories(
      ofPorts,
      this.#unknownDirectories,
      nowMs,
      scope,
    );
  }

  async #readKubelet(): Promise<KubeletView | undefined> {
    const { context, logger } = this.#scope;
    const view = kubeletView(await this.#sources.listPods(passSignal(this.#scope)));
    const reason = whyIncomplete(view, this.#sources.ownPod);
    if (reason === undefined) return view;
    const { allocations, ports } = context.records;
    // An empty list is expected while there is nothing to decide.
    if (allocations.list().length + ports.list().length > 0) {
      logger.warn({ reason }, "PodResources list incomplete, skipping reclaim");
    }
    return undefined;
  }
}

/** Reads the ports of all switches; one that does not answer does not keep the others. */
async function readSwitches(scope: ReconcileScope): Promise<SwitchesView> {
  const unread = new Set<Dataplane>();
  const lists = scope.context.pools.dataplanes().map(async (dataplane) => {
    try {
      const ports = await dataplane.listPorts(passSignal(scope));
      return ports.map((port) => ({ dataplane, port }));
    } catch (error) {
      unread.add(dataplane);
      scope.observer.itemFailed(error);
      scope.logger.warn(
        { reason: describeThrown(error) },
        "cannot read a switch's ports, skipping reclaim of its pools",
      );
      return [];
    }
  });
  return { switchPorts: (await Promise.all(lists)).flat(), unread };
}

function allocationsOf(
  dataplanes: ReadonlySet<Dataplane>,
  { context: { records, pools } }: ReconcileScope,
): readonly string[] {
  return records.allocations
    .list()
    .filter((allocation) => {
      const dataplane = pools.ofAllocation(allocation)?.dataplane;
      return dataplane === undefined ? dataplanes.size > 0 : dataplanes.has(dataplane);
    })
    .map(({ id }) => id);
}

/**
 * Records that were made while the clock was ahead would stay too young to be reclaimed for as long as it was. From now
 * on the newest of them is of this moment, and the others are as much older as they were. In memory alone: a daemon
 * that starts again does it again.
 */
export function redateRecords({ allocations, ports }: Records, nowMs: number): void {
  const made = [...allocations.list(), ...ports.list()].map(({ createdAt }) => createdAt);
  const aheadMs = made.reduce((newest, createdAt) => Math.max(newest, createdAt), nowMs) - nowMs;
  if (aheadMs === 0) return;
  const redated = <Record extends { readonly createdAt: number }>(record: Record): Record =>
    record.createdAt > nowMs ? { ...record, createdAt: record.createdAt - aheadMs } : record;
  for (const { id } of allocations.list()) allocations.updateInMemory(id, redated);
  for (const { containerId, interfaceName } of ports.list()) {
    ports.updateInMemory(portRecordName(containerId, interfaceName), redated);
  }
}

interface ReclaimCheck {
  readonly kubelet: KubeletView;
  /** Allocations to whose sockets a switch has, or may have, a guest connected. */
  readonly connected: ReadonlySet<string>;
  /** What the check before this one returned. */
  readonly before: ReadonlySet<string>;
  readonly nowMs: number;
}

/**
 * Removes the attachments and allocations that no pod holds any more; of an allocation ports first, because a switch
 * would go on trying to connect to a directory that is gone. One that cannot be removed does not keep the others.
 * @returns what to compare with at the next check
 */
async function reclaim(check: ReclaimCheck, scope: ReconcileScope): Promise<ReadonlySet<string>> {
  const { config, records } = scope.context;
  const { observer, logger } = scope;
  const plan = planReclaim({
    ...check,
    allocations: records.allocations.list(),
    ports: records.ports.list(),
    graceMs: config.reclaim.graceSeconds * 1000,
  });
  let portsLeft = 0;
  for (const port of plan.ports) {
    const left = await detach(port, scope);
    if (left === undefined) {
      observer.repaired("missing-del");
      logger.warn(attachmentFields(port), "removed the port of a pod that is gone; its DEL never came");
    } else {
      portsLeft += 1;
      observer.itemFailed(left);
      logger.warn(
        { ...attachmentFields(port), err: left },
        "cannot remove the port of a pod that is gone, retrying at the next pass",
      );
    }
  }
  observer.leftover("port", portsLeft);
  let allocationsLeft = 0;
  for (const allocation of plan.allocations) {
    try {
      await removeHeldBy(allocation, scope);
      observer.reclaimed(allocation.pool);
      logger.info(allocationFields(allocation), "reclaimed an allocation");
    } catch (error) {
      allocationsLeft += 1;
      observer.itemFailed(error);
      logger.warn(
        { ...allocationFields(allocation), reason: describeThrown(error) },
        "cannot reclaim an allocation, retrying at the next pass",
      );
    }
  }
  observer.leftover("allocation", allocationsLeft);
  return plan.abandoned;
}

async function removeHeldBy(allocation: AllocationRecord, scope: ReconcileScope): Promise<void> {
  const { allocations, ports } = scope.context.records;
  for (const port of ports.list().filter(({ allocationId }) => allocationId === allocation.id)) {
    const left = await detach(port, scope);
    if (left !== undefined) throw left;
  }
  await removeAllocation(allocation, allocations, scope.places);
}

/** @returns why the port is still there, where it is */
function detach(port: PortRecord, scope: ReconcileScope): Promise<Error | undefined> {
  const signal = passSignal(scope);
  const { containerId, interfaceName, createdAt } = port;
  const what = `removal of interface ${interfaceName}`;
  return scope.locks.run<Error | undefined>(
    { key: containerId, where: `container ${containerId}`, what, signal },
    async () => {
      const record = scope.context.records.ports.get(portRecordName(containerId, interfaceName));
      // It may have been detached during the wait, and attached again.
      return record?.createdAt === createdAt ? removeAttachment(scope.context, record, signal) : undefined;
    },
    (busy) => busy,
  );
}
