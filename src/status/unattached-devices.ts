import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { newestAllocations, type Records } from "../records/records.ts";
import type { InterfaceStatus } from "./shape.ts";

/** A device that a pod holds, and its allocation. */
export interface UnattachedDevice {
  readonly device: string;
  readonly allocation: AllocationRecord;
  readonly pod: InterfaceStatus["pod"];
}

/**
 * Pure: devices that kubelet says pods hold, in allocations of which no interface is attached: CNI ADD has not come, or
 * failed. Of an allocation with an interface its further devices are no news: a VM asks for its resource itself, and
 * KubeVirt once more.
 */
export function unattachedDevices(
  { ports, allocations }: Records,
  pods: readonly PodDevices[],
): readonly UnattachedDevice[] {
  const newest = newestAllocations(allocations.list());
  const withInterface = new Set(ports.list().map(({ allocationId }) => allocationId));
  return pods.flatMap(({ podNamespace: namespace, podName: name, containers }) =>
    containers
      .flatMap(({ devices }) => devices.flatMap(({ ids }) => ids))
      .flatMap((device) => {
        const allocation = newest.get(device);
        if (allocation === undefined || withInterface.has(allocation.id)) return [];
        return [{ device, allocation, pod: { namespace, name, uid: "" } }];
      }),
  );
}
