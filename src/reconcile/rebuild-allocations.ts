import { type AllocationPlaces, ensureDeviceInfo } from "../allocation/ensure-allocation.ts";
import { removeDeviceInfoTemporaries } from "../device-info/device-info-file.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { Records } from "../records/records.ts";
import { newestAllocationOf } from "../records/records.ts";
import { ensureSocketDirectories } from "../socket-directory/ensure.ts";

/**
 * Makes the directories and device-info files of all records: kubelet never repeats Allocate for a running pod,
 * and the root is a tmpfs that a reboot empties. One that cannot be made is reported and keeps nobody else, for
 * one pod may have filled the root up.
 */
export async function rebuildAllocations(
  records: Records,
  places: AllocationPlaces,
  logger: Logger,
): Promise<void> {
  await removeDeviceInfoTemporaries(places.deviceInfoDirectory);
  for (const record of records.allocations.list()) {
    try {
      await rebuildOne(record, records, places);
    } catch (error) {
      logger.error(
        { allocation: record.id, reason: describeThrown(error) },
        "an allocation cannot be rebuilt",
      );
    }
  }
}

async function rebuildOne(
  record: AllocationRecord,
  records: Records,
  places: AllocationPlaces,
): Promise<void> {
  const interfaces = records.ports
    .list()
    .filter(({ allocationId, state }) => allocationId === record.id && state !== "detaching")
    .map(({ interfaceName }) => interfaceName);
  await ensureSocketDirectories({
    root: places.root,
    allocationId: record.id,
    names: [...record.devices, ...interfaces],
    ownership: record.ownership,
  });
  const allocations = records.allocations.list();
  const newest = record.devices.filter((device) => newestAllocationOf(device, allocations)?.id === record.id);
  await ensureDeviceInfo(record, newest, places);
}
