import type { DirectoryGuardOptions } from "../allocation/guard/guard.ts";
import { PortsByAllocation } from "../records/ports-by-allocation.ts";
import { isNamedByForeign, type Records } from "../records/records.ts";

/** What the records say of the directories that are guarded, also those of another release, as far as it is known. */
export function recordedDirectories(
  records: Records,
): Required<Pick<DirectoryGuardOptions, "ownershipOf" | "namesOf" | "isForeign">> {
  const { allocations, ports } = records;
  const byAllocation = new PortsByAllocation(ports);
  return {
    ownershipOf: (id) => (allocations.get(id) ?? allocations.getForeign(id)?.foreign?.glimpse)?.ownership,
    namesOf: (id) => {
      const devices = allocations.get(id)?.devices;
      const interfaces = byAllocation.of(id).map(({ interfaceName }) => interfaceName);
      return devices && [...devices, ...interfaces];
    },
    isForeign: (id) => allocations.getForeign(id) !== undefined || isNamedByForeign(records, id),
  };
}
