import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import type { KeyedLock } from "../attachment/keyed-lock.ts";
import { distinctDataplanes, type NodeContext } from "../attachment/node-context.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { describeThrown } from "../failure/failure.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { Logger } from "../logging/logger.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";

/** What a pass over the ports works with. */
export interface PortPass {
  readonly context: NodeContext;
  readonly lock: KeyedLock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Brings the switch to what the records say: attached ports are made or mended, half-made ones taken back,
 * those of an answered DEL removed. One that fails is reported and the others go on.
 */
export async function reconcileRecordedPorts(pass: PortPass): Promise<void> {
  for (const listed of pass.context.records.ports.list()) {
    await pass.lock.run(listed.containerId, async () => {
      // A verb may have changed it while we waited for the lock.
      const record = pass.context.records.ports.get(portRecordName(listed.containerId, listed.interfaceName));
      if (record === undefined) return;
      try {
        await reconcileOne(record, pass);
      } catch (error) {
        pass.logger.warn(
          { port: record.portName, reason: describeThrown(error) },
          "port cannot be reconciled",
        );
      }
    });
  }
}

async function reconcileOne(record: PortRecord, pass: PortPass): Promise<void> {
  if (record.state === "attached") {
    const allocation = pass.context.records.allocations.get(record.allocationId);
    // Its record may be torn while the pod lives; removeOrphanPorts decides with what kubelet knows.
    if (allocation === undefined) return;
    await ensureAttachment(pass.context, record, allocation, pass.signal);
    return;
  }
  // `attaching` under the lock means that the ADD that wrote it is over and did not succeed.
  pass.logger.warn({ port: record.portName, state: record.state }, "removing a port");
  const left = await removeAttachment(pass.context, record, pass.signal);
  if (left !== undefined) throw left;
}

/**
 * Removes ports that carry this node's mark, whose record or whose allocation's record is missing, and whose
 * pod kubelet does not list. With the pod alive the records may have been lost, and a living pod's port is not
 * touched.
 */
export async function removeOrphanPorts(pods: readonly PodDevices[], pass: PortPass): Promise<void> {
  const alive = new Set(pods.map(({ podNamespace, podName }) => `${podNamespace}/${podName}`));
  for (const dataplane of distinctDataplanes(pass.context)) {
    for (const { name, owner } of await dataplane.listPorts(pass.signal)) {
      await pass.lock.run(owner.containerId, async () => {
        const { allocations, ports } = pass.context.records;
        const record = ports.get(portRecordName(owner.containerId, owner.interfaceName));
        if (record !== undefined && allocations.get(record.allocationId) !== undefined) return;
        const pod = `${owner.podNamespace}/${owner.podName}`;
        if (alive.has(pod)) {
          pass.logger.warn({ port: name, pod }, "a living pod's port has no record; it is left alone");
          return;
        }
        pass.logger.warn({ port: name, pod }, "removing a port whose pod is gone");
        await dataplane.removePort(name, pass.signal);
        if (record !== undefined) await removeAttachment(pass.context, record, pass.signal);
      });
    }
  }
}
