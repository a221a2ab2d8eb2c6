import { setImmediate as nextTurn } from "node:timers/promises";
import { removeDeviceInfoTemporaries } from "../allocation/device-info/device-info-file.ts";
import { RoomForMany } from "../allocation/directory/room-for-many.ts";
import { type AllocationPlaces, ensureDeviceInfo } from "../allocation/ensure-allocation.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Records } from "../records/records.ts";
import { newestAllocations } from "../records/records.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { expectedDirectories } from "./expected-directories.ts";

/** One takes some 0.1 ms; after so many the event loop is left to others. */
const REBUILT_PER_TURN = 20;

/**
 * Makes the directories and device-info files of all records: kubelet never repeats Allocate for a running pod,
 * and the root is a tmpfs that a reboot empties. One that cannot be made is reported and keeps nobody else, for
 * one pod may have filled the root up.
 * @param signal ends it before the next one; the next start does the rest
 */
export async function rebuildAllocations(
  records: Records,
  places: AllocationPlaces,
  logger: Logger,
  signal?: AbortSignal,
  clock: Clock = systemClock,
): Promise<void> {
  await removeDeviceInfoTemporaries(places.deviceInfoDirectory);
  const allocations = records.allocations.list();
  const newest = newestAllocations(records.allocations.list());
  const room = new RoomForMany(clock);
  const ports = Map.groupBy(records.ports.list(), ({ allocationId }) => allocationId);
  for (const [index, record] of allocations.entries()) {
    if (index % REBUILT_PER_TURN === REBUILT_PER_TURN - 1) await nextTurn();
    signal?.throwIfAborted();
    try {
      const interfaces = (ports.get(record.id) ?? []).filter(({ state }) => state !== "detaching");
      await room.ensure(expectedDirectories(record, interfaces, places), signal);
      const devices = record.devices.filter((device) => newest.get(device) === record);
      ensureDeviceInfo(record, devices, places);
    } catch (error) {
      signal?.throwIfAborted();
      logger.error(
        { allocation: record.id, reason: describeThrown(error) },
        "an allocation cannot be rebuilt",
      );
    }
  }
}
