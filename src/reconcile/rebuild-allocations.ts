import {
  type AllocationPlaces,
  ensureAllocationDirectories,
  ensureDeviceInfo,
} from "../allocation/ensure-allocation.ts";
import { removeDeviceInfoTemporaries } from "../device-info/device-info-file.ts";
import type { Logger } from "../logging/logger.ts";
import type { Records } from "../records/records.ts";
import { newestAllocationOf } from "../records/records.ts";
import { ensureSocketDirectories } from "../socket-directory/ensure.ts";
import { listAllocationDirectories } from "../socket-directory/list.ts";
import { removeAllocationDirectory } from "../socket-directory/remove.ts";

/**
 * Makes the directories and device-info files of all records, and removes directories that have none: kubelet
 * never repeats Allocate for a running pod, and the root is a tmpfs that a reboot empties. Runs at start only,
 * before Allocate is served, because Allocate makes a directory before its record.
 */
export async function rebuildAllocations(
  records: Records,
  places: AllocationPlaces,
  logger: Logger,
): Promise<void> {
  await removeDeviceInfoTemporaries(places.deviceInfoDirectory);
  const allocations = records.allocations.list();
  for (const id of await listAllocationDirectories(places.root)) {
    if (records.allocations.get(id) !== undefined) continue;
    // A record that could not be read may be this directory's: leave all unknown ones alone then.
    if (records.allocations.unreadable.length > 0) {
      logger.warn({ allocation: id }, "a directory without a readable record is left alone");
      continue;
    }
    logger.warn({ allocation: id }, "removing a directory that has no record");
    await removeAllocationDirectory(places.root, id);
  }
  for (const record of allocations) {
    await ensureAllocationDirectories(record, places);
    const newest = record.devices.filter(
      (device) => newestAllocationOf(device, allocations)?.id === record.id,
    );
    await ensureDeviceInfo(record, newest, places);
  }
  for (const port of records.ports.list()) {
    const allocation = records.allocations.get(port.allocationId);
    if (allocation === undefined || port.state === "detaching") continue;
    await ensureSocketDirectories({
      root: places.root,
      allocationId: allocation.id,
      names: [port.interfaceName],
      ownership: allocation.ownership,
    });
  }
}
