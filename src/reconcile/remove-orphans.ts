import { removeAllocationDirectory } from "../allocation/set-aside.ts";
import { isIdle, listAllocationDirectories } from "../allocation/socket-directories.ts";
import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortOwner, PortState } from "../dataplane/port.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import { portKey } from "../records/port-record.ts";
import type { KubeletView } from "./kubelet-view.ts";
import { attemptEach, passSignal, type ReconcileScope } from "./reconcile-pass.ts";

/** A port that carries this node's mark, and the switch that it is in. */
export interface SwitchPort {
  readonly dataplane: Dataplane;
  readonly port: PortState;
}

/**
 * Removes ports whose record, or whose allocation's record, is missing, and whose pod kubelet does not list. With the
 * pod alive the records may have been lost, and a living pod's port is not touched; nor is one with a guest connected.
 * A switch that cannot hold an owner's details (VPP) does not know the pod of a port without a record: then the
 * allocation's directory shows whether the port is in use.
 */
export async function removeOrphanPorts(
  switchPorts: readonly SwitchPort[],
  kubelet: KubeletView,
  nowMs: number,
  scope: ReconcileScope,
): Promise<void> {
  const { allocations, ports } = scope.context.records;
  const isOrphan = ({ port }: SwitchPort) => {
    const record = ports.get(portKey(port.owner));
    return record === undefined || allocations.get(record.allocationId) === undefined;
  };
  const removeOrphan = async (found: SwitchPort) => {
    const { dataplane, port } = found;
    const { interfaceName, podNamespace, podName } = port.owner;
    const signal = passSignal(scope);
    await scope.locks.run(portLock(port.owner, `removal of interface ${interfaceName}`, signal), async () => {
      // An ADD may have recorded it during the wait.
      if (!isOrphan(found)) return;
      const record = ports.get(portKey(port.owner));
      const fields = { port: port.name, pod: `${podNamespace}/${podName}` };
      if (port.connected || (await isPodAlive(port.owner, kubelet, nowMs, scope))) {
        scope.logger.warn(fields, "keeping a port without a record: its pod is alive");
        return;
      }
      scope.logger.warn(fields, "removing a port without a record: its pod is gone");
      await dataplane.removePort(port.name, signal);
      scope.observer.repaired("orphan-port");
      if (record !== undefined) await removeAttachment(scope.context, record, signal);
    });
  };
  await attemptEach(scope, switchPorts.filter(isOrphan), removeOrphan, {
    message: "cannot remove a port without a record",
    fieldsOf: ({ port }) => ({ port: port.name }),
  });
}

async function isPodAlive(
  { podNamespace, podName, allocationId }: PortOwner,
  kubelet: KubeletView,
  nowMs: number,
  { places: { root }, context }: ReconcileScope,
): Promise<boolean> {
  if (podName !== "") return kubelet.pods.has(`${podNamespace}/${podName}`);
  if (!isAllocationId(allocationId)) return true;
  if (!(await listAllocationDirectories(root)).includes(allocationId)) return false;
  return !(await isIdle(root, allocationId, nowMs - context.config.reclaim.graceSeconds * 1000));
}

/**
 * Removes directories without a record: an Allocate that was killed before its record left them, and kubelet never had
 * an answer. The record may have been lost while its pod still runs, so a directory goes only when it is old enough,
 * no damaged record names it, no port of the switch uses it, and no pod has made anything in it; all that
 * at two checks in a row, because a clock that steps forward makes a running Allocate look old.
 * @param before what the check before this one returned
 * @returns what to compare with at the next check
 */
export async function removeUnknownDirectories(
  allocationsOfPorts: ReadonlySet<string>,
  before: ReadonlySet<string>,
  nowMs: number,
  scope: ReconcileScope,
): Promise<ReadonlySet<string>> {
  const { context, places, observer, logger } = scope;
  const { allocations } = context.records;
  const unknown = new Set<string>();
  const isKnown = (id: string) => allocations.get(id) !== undefined || allocationsOfPorts.has(id);
  const removeUnknown = async (id: string) => {
    // A whole file that cannot be read may name any of them.
    if (allocations.unreadable.some(({ text }) => text === "" || text.includes(id))) return;
    if (!(await isIdle(places.root, id, nowMs - context.config.reclaim.graceSeconds * 1000))) return;
    unknown.add(id);
    if (!before.has(id)) return;
    logger.warn({ allocation: id }, "removing a directory that has no record");
    await removeAllocationDirectory(places.root, id);
    observer.repaired("unknown-directory");
  };
  const unrecorded = (await listAllocationDirectories(places.root)).filter((id) => !isKnown(id));
  const left = await attemptEach(scope, unrecorded, removeUnknown, {
    message: "cannot remove a directory without a record",
    fieldsOf: (allocation) => ({ allocation }),
  });
  observer.leftover("directory", left);
  return unknown;
}

/** Removes from every switch what ports of ours left behind in it when something else removed them, or we were killed. */
export async function removeStrays(scope: ReconcileScope): Promise<void> {
  const remove = async (dataplane: Dataplane) => {
    const removed = await dataplane.removeStrays(passSignal(scope));
    if (removed > 0) scope.logger.warn({ removed }, "removed what ports left behind in the switch");
    for (let count = 0; count < removed; count += 1) scope.observer.repaired("stray");
  };
  const message = "cannot remove what ports left behind in a switch";
  await attemptEach(scope, scope.context.pools.dataplanes(), remove, { message });
}
