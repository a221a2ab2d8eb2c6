import { isIdle } from "../allocation/directory/is-idle.ts";
import { listAllocationDirectories } from "../allocation/directory/list.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortOwner, PortState } from "../dataplane/port.ts";
import { describeThrown } from "../failure/failure.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import { portRecordName } from "../records/port-record.ts";
import type { KubeletView } from "./kubelet-view.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** A port that carries this node's mark, and the switch that it is in. */
export interface SwitchPort {
  readonly dataplane: Dataplane;
  readonly port: PortState;
}

/**
 * Removes ports whose record, or whose allocation's record, is missing, and whose pod kubelet does not list. With
 * the pod alive the records may have been lost, and a living pod's port is not touched; nor is one with a guest
 * connected. A switch that cannot hold an owner's details (VPP) does not tell the pod of a port without a record:
 * then the allocation's directory tells whether somebody uses it.
 */
export async function removeOrphanPorts(
  switchPorts: readonly SwitchPort[],
  kubelet: KubeletView,
  nowMs: number,
  pass: ReconcilePass,
): Promise<void> {
  for (const { dataplane, port } of switchPorts) {
    const { containerId, interfaceName, podNamespace, podName } = port.owner;
    const signal = portSignal(pass);
    const turn = {
      key: containerId,
      where: `container ${containerId}`,
      what: `removal of interface ${interfaceName}`,
      signal,
    };
    try {
      await pass.locks.run(turn, async () => {
        const { allocations, ports } = pass.context.records;
        const name = portRecordName(containerId, interfaceName);
        const record = ports.get(name);
        if (record !== undefined && allocations.get(record.allocationId) !== undefined) return;
        const pod = `${podNamespace}/${podName}`;
        if (port.connected || (await mayLive(port.owner, kubelet, nowMs, pass))) {
          pass.logger.warn({ port: port.name, pod }, "a living pod's port has no record; it is left alone");
          return;
        }
        pass.logger.warn({ port: port.name, pod }, "removing a port whose pod is gone");
        await dataplane.removePort(port.name, signal);
        pass.observer.repaired("orphan-port");
        if (record !== undefined) await removeAttachment(pass.context, record, signal);
      });
    } catch (error) {
      pass.observer.itemFailed(error);
      pass.logger.warn({ port: port.name, reason: describeThrown(error) }, "orphan port cannot be removed");
    }
  }
}

async function mayLive(
  { podNamespace, podName, allocationId }: PortOwner,
  kubelet: KubeletView,
  nowMs: number,
  pass: ReconcilePass,
): Promise<boolean> {
  if (podName !== "") return kubelet.pods.has(`${podNamespace}/${podName}`);
  const { root } = pass.places;
  if (!isAllocationId(allocationId)) return true;
  if (!(await listAllocationDirectories(root)).includes(allocationId)) return false;
  const sinceMs = nowMs - pass.context.config.reclaim.graceSeconds * 1000;
  return !(await isIdle(root, allocationId, sinceMs));
}
