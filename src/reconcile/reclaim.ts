import type { AllocationPlaces } from "../allocation/ensure-allocation.ts";
import { removeAllocation } from "../allocation/remove-allocation.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { planReclaim } from "./plan-reclaim.ts";
import type { PortPass } from "./reconcile-ports.ts";

/** What reclaiming needs beyond a pass. */
export interface ReclaimOptions {
  readonly pods: readonly PodDevices[];
  readonly before: ReadonlySet<string>;
  readonly nowMs: number;
  readonly places: AllocationPlaces;
}

/**
 * Removes the allocations that no pod holds any more: ports first, for a switch would go on trying to connect
 * to a directory that is gone.
 * @returns the allocations to compare with at the next look
 */
export async function reclaim(options: ReclaimOptions, pass: PortPass): Promise<ReadonlySet<string>> {
  const { config, records } = pass.context;
  const ours = new Set(config.pools.map(({ resource }) => resource));
  const held = options.pods
    .flatMap(({ containers }) => containers.flatMap(({ devices }) => devices))
    .filter(({ resource }) => ours.has(resource))
    .flatMap(({ ids }) => ids);
  const plan = planReclaim({
    allocations: records.allocations.list(),
    held: new Set(held),
    before: options.before,
    nowMs: options.nowMs,
    graceMs: config.reclaim.graceSeconds * 1000,
  });
  for (const allocation of plan.remove) await removeOne(allocation, options.places, pass);
  return plan.abandoned;
}

async function removeOne(
  allocation: AllocationRecord,
  places: AllocationPlaces,
  pass: PortPass,
): Promise<void> {
  const { records } = pass.context;
  for (const port of records.ports.list().filter(({ allocationId }) => allocationId === allocation.id)) {
    const left = await pass.lock.run(port.containerId, () =>
      removeAttachment(pass.context, port, pass.signal),
    );
    if (left !== undefined) {
      pass.logger.warn(
        { allocation: allocation.id, port: port.portName, err: left },
        "reclaiming goes on later",
      );
      return;
    }
  }
  await removeAllocation(allocation, records.allocations, places);
  pass.logger.info({ allocation: allocation.id, devices: allocation.devices }, "reclaimed");
}
