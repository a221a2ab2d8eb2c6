import type { AllocationRecord } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { newestAllocationOf } from "../records/records.ts";
import { devicePluginFile, removeDeviceInfo } from "./device-info/device-info-file.ts";
import { removeAllocationDirectory } from "./directory/remove.ts";
import type { AllocationPlaces } from "./ensure-allocation.ts";

/**
 * Removes an allocation that no pod holds any more: directory, device-info, then the record, so that a crash in
 * between repeats it. Device-info that a newer allocation of the same device wrote stays.
 */
export async function removeAllocation(
  record: AllocationRecord,
  allocations: RecordStore<AllocationRecord>,
  places: AllocationPlaces,
): Promise<void> {
  await removeAllocationDirectory(places.root, record.id);
  for (const device of record.devices) {
    if (newestAllocationOf(device, allocations.list())?.id !== record.id) continue;
    removeDeviceInfo(devicePluginFile(places.deviceInfoDirectory, record.resource, device));
  }
  await allocations.remove(record.id);
}
