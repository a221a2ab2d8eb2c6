import type { SocketDirectories } from "../allocation/directory/expected.ts";
import type { AllocationPlaces } from "../allocation/ensure-allocation.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";

/** The directories of an allocation with these interfaces. */
export function expectedDirectories(
  { id, devices, ownership }: AllocationRecord,
  ports: readonly PortRecord[],
  { root }: AllocationPlaces,
): SocketDirectories {
  const names = [...devices, ...ports.map(({ interfaceName }) => interfaceName)];
  return { root, allocationId: id, names, ownership };
}
