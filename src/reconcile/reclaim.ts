import { removeAllocation } from "../allocation/allocation.ts";
import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import { attachmentFields } from "../logging/fields.ts";
import { type AllocationRecord, allocationFields } from "../records/allocation-record.ts";
import { type PortRecord, portKey } from "../records/port-record.ts";
import type { Records } from "../records/records.ts";
import { type KubeletView, kubeletView, type PodName, whyIncomplete } from "./kubelet-view.ts";
import { planReclaim } from "./plan-reclaim.ts";
import { attemptEach, passSignal, type ReconcileScope } from "./reconcile-pass.ts";
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
  /** Why kubelet's list could not be used last. */
  #incomplete: string | undefined;
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
    const { allocations, ports } = context.records;
    // An empty list is expected while there is nothing to decide.
    const isExpected = allocations.list().length + ports.list().length === 0;
    if (reason !== undefined && reason !== this.#incomplete && !isExpected) {
      logger.warn({ reason }, "PodResources list incomplete, skipping reclaim");
    }
    this.#incomplete = reason;
    return reason === undefined ? view : undefined;
  }
}

/** Reads the ports of all switches; one that does not answer does not keep the others. */
async function readSwitches(scope: ReconcileScope): Promise<SwitchesView> {
  const dataplanes = scope.context.pools.dataplanes();
  const unread = new Set(dataplanes);
  const switchPorts: SwitchPort[] = [];
  const read = async (dataplane: Dataplane) => {
    const ports = await dataplane.listPorts(passSignal(scope));
    unread.delete(dataplane);
    switchPorts.push(...ports.map((port) => ({ dataplane, port })));
  };
  const message = "cannot read a switch's ports, skipping reclaim of its pools";
  await Promise.all(dataplanes.map((dataplane) => attemptEach(scope, [dataplane], read, { message })));
  return { switchPorts, unread };
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
  for (const port of ports.list()) ports.updateInMemory(portKey(port), redated);
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
 * would keep trying to connect to a directory that is gone. One that cannot be removed does not keep the others.
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
  const removeGonePodsPort = async (port: PortRecord) => {
    await detach(port, scope);
    observer.repaired("missing-del");
    logger.warn(attachmentFields(port), "removed the port of a pod that is gone; its DEL never came");
  };
  const portsLeft = await attemptEach(scope, plan.ports, removeGonePodsPort, {
    message: "cannot remove the port of a pod that is gone, retrying at the next pass",
    fieldsOf: attachmentFields,
  });
  observer.leftover("port", portsLeft);
  const reclaimAllocation = async (allocation: AllocationRecord) => {
    const ofAllocation = records.ports.list().filter((port) => port.allocationId === allocation.id);
    for (const port of ofAllocation) await detach(port, scope);
    await removeAllocation(allocation, records.allocations, scope.places);
    observer.reclaimed(allocation.pool);
    logger.info(allocationFields(allocation), "reclaimed an allocation");
  };
  const allocationsLeft = await attemptEach(scope, plan.allocations, reclaimAllocation, {
    message: "cannot reclaim an allocation, retrying at the next pass",
    fieldsOf: allocationFields,
  });
  observer.leftover("allocation", allocationsLeft);
  return plan.abandoned;
}

/** @throws why the port is still there */
async function detach(port: PortRecord, scope: ReconcileScope): Promise<void> {
  const signal = passSignal(scope);
  await scope.locks.run(portLock(port, `removal of interface ${port.interfaceName}`, signal), async () => {
    const record = scope.context.records.ports.get(portKey(port));
    // It may have been detached during the wait, and attached again.
    if (record?.createdAt !== port.createdAt) return;
    const left = await removeAttachment(scope.context, record, signal);
    if (left !== undefined) throw left;
  });
}
