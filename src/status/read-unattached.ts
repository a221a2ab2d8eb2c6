import { describeDevice } from "./describe-interface.ts";
import type { InterfaceStatus, NodeStatus } from "./shape.ts";
import type { StatusSource } from "./status-source.ts";
import { unattachedDevices } from "./unattached-devices.ts";

/**
 * Pods that were given devices and have no interface yet, which no record names: kubelet's list does. It is read only
 * where the node has such an allocation, and nobody is told where it cannot be read.
 */
export async function readUnattached(
  source: StatusSource,
  { interfaces, allocations }: NodeStatus,
): Promise<readonly InterfaceStatus[]> {
  const attached = new Set(interfaces.map(({ allocation }) => allocation));
  if (allocations.every(({ id }) => attached.has(id))) return [];
  const { records, config } = source.context;
  const pods = await source.listPods().catch(() => []);
  return unattachedDevices(records, pods).map(({ device, allocation, pod }) =>
    describeDevice(config.root, device, allocation, pod),
  );
}
