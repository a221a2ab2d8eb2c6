import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortState } from "../dataplane/port.ts";
import { describeThrown } from "../failure/failure.ts";
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
 * connected.
 */
export async function removeOrphanPorts(
  switchPorts: readonly SwitchPort[],
  kubelet: KubeletView,
  pass: ReconcilePass,
): Promise<void> {
  for (const { dataplane, port } of switchPorts) {
    const { containerId, interfaceName, podNamespace, podName } = port.owner;
    const signal = portSignal(pass);
    const turn = { containerId, what: `removal of interface ${interfaceName}`, signal };
    try {
      await pass.turns.run(turn, async () => {
        const { allocations, ports } = pass.context.records;
        const record = ports.get(portRecordName(containerId, interfaceName));
        if (record !== undefined && allocations.get(record.allocationId) !== undefined) return;
        const pod = `${podNamespace}/${podName}`;
        if (port.connected || kubelet.pods.has(pod)) {
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
