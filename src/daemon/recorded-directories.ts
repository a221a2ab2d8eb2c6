import type { DirectoryGuardOptions } from "../allocation/guard/guard.ts";
import { PortsByAllocation } from "../records/ports-by-allocation.ts";
import type { Records } from "../records/records.ts";

/** What the records say of the directories that are guarded. */
export function recordedDirectories(
  records: Records,
): Required<Pick<DirectoryGuardOptions, "ownershipOf" | "namesOf">> {
  const { allocations, ports } = records;
  const byAllocation = new PortsByAllocation(ports);
  return {
    ownershipOf: (id) => allocations.get(id)?.ownership,
    namesOf: (id) => {
      const devices = allocations.get(id)?.devices;
      const interfaces = byAllocation.of(id).map(({ interfaceName }) => interfaceName);
      return devices && [...devices, ...interfaces];
    },
  };
}
