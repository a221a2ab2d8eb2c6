import { removeAllocation } from "../allocation/remove-allocation.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { describeThrown } from "../failure/failure.ts";
import { allocationFields, attachmentFields } from "../logging/fields.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import type { KubeletView } from "./kubelet-view.ts";
import { planReclaim } from "./plan-reclaim.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** What reclaiming needs beyond a pass. */
export interface ReclaimOptions {
  readonly kubelet: KubeletView;
  /** Allocations to whose sockets the switch has a guest connected. */
  readonly connected: ReadonlySet<string>;
  readonly before: ReadonlySet<string>;
  readonly nowMs: number;
}

/**
 * Removes the attachments and allocations that no pod holds any more; of an allocation ports first, for a switch
 * would go on trying to connect to a directory that is gone. One that cannot be removed does not keep the others.
 * @returns what to compare with at the next look
 */
export async function reclaim(options: ReclaimOptions, pass: ReconcilePass): Promise<ReadonlySet<string>> {
  const { config, records } = pass.context;
  const plan = planReclaim({
    ...options,
    allocations: records.allocations.list(),
    ports: records.ports.list(),
    graceMs: config.reclaim.graceSeconds * 1000,
  });
  let portsLeft = 0;
  for (const port of plan.ports) {
    const left = await detach(port, pass);
    if (left === undefined) {
      pass.observer.repaired("missing-del");
      pass.logger.warn(attachmentFields(port), "removed the port of a pod that is gone; its DEL never came");
    } else {
      portsLeft += 1;
      pass.observer.itemFailed(left);
      pass.logger.warn(
        { ...attachmentFields(port), err: left },
        "the port of a pod that is gone is removed later",
      );
    }
  }
  pass.observer.leftover("port", portsLeft);
  let allocationsLeft = 0;
  for (const allocation of plan.allocations) {
    try {
      await removeOne(allocation, pass);
      pass.observer.reclaimed(allocation.pool);
      pass.logger.info(allocationFields(allocation), "reclaimed");
    } catch (error) {
      allocationsLeft += 1;
      pass.observer.itemFailed(error);
      pass.logger.warn(
        { ...allocationFields(allocation), reason: describeThrown(error) },
        "reclaiming goes on later",
      );
    }
  }
  pass.observer.leftover("allocation", allocationsLeft);
  return plan.abandoned;
}

async function removeOne(allocation: AllocationRecord, pass: ReconcilePass): Promise<void> {
  const { allocations, ports } = pass.context.records;
  for (const port of ports.list().filter(({ allocationId }) => allocationId === allocation.id)) {
    const left = await detach(port, pass);
    if (left !== undefined) throw left;
  }
  await removeAllocation(allocation, allocations, pass.places);
}

function detach(port: PortRecord, pass: ReconcilePass): Promise<Error | undefined> {
  const signal = portSignal(pass);
  const { containerId, interfaceName, createdAt } = port;
  return pass.locks.run<Error | undefined>(
    {
      key: containerId,
      where: `container ${containerId}`,
      what: `removal of interface ${interfaceName}`,
      signal,
    },
    async () => {
      const record = pass.context.records.ports.get(portRecordName(containerId, interfaceName));
      // Detached while we waited for the turn, and perhaps attached anew.
      return record?.createdAt === createdAt ? removeAttachment(pass.context, record, signal) : undefined;
    },
    (busy) => busy,
  );
}
