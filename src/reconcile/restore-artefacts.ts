import { setImmediate as eventLoop } from "node:timers/promises";
import {
  type AllocationPlaces,
  allocationDeviceInfo,
  directoriesOf,
  ensureDeviceInfo,
} from "../allocation/allocation.ts";
import {
  deviceInfoProblem,
  removeDeviceInfoTemporaries,
  writeDeviceInfo,
} from "../allocation/device-info.ts";
import { directoryProblem, ensureSocketDirectories } from "../allocation/socket-directories.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { type AllocationRecord, allocationFields, pluginDevicesOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { newestAllocationOf, newestAllocations, type Records } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { attemptEach, type ReconcileScope } from "./reconcile-pass.ts";

/** Each takes 0.02 to 0.1 ms; after so many the event loop serves other requests. */
const ALLOCATIONS_AT_ONCE = 20;
/** Milliseconds in which an Allocate or ADD makes what it has recorded, or removes the record. */
const UNDER_WAY_MS = 5_000;

/**
 * Makes the directories and device-info files of all records at the daemon's start: kubelet never repeats Allocate for
 * a running pod, and the root is a tmpfs that a reboot empties. One that cannot be made is logged and does not keep the
 * others.
 * @param signal ends it before the next one; the next start does the rest
 */
export async function rebuildAllocations(
  records: Records,
  places: AllocationPlaces,
  logger: Logger,
  signal?: AbortSignal,
): Promise<void> {
  await removeDeviceInfoTemporaries(places.deviceInfoDirectory);
  for await (const { record, interfaces, newest } of allocationsOf(
    records,
    ({ state }) => state !== "detaching",
  )) {
    signal?.throwIfAborted();
    try {
      await ensureSocketDirectories(directoriesOf(record, places, interfaces));
      ensureDeviceInfo(record, newest, places);
    } catch (error) {
      signal?.throwIfAborted();
      logger.error({ allocation: record.id, reason: describeThrown(error) }, "cannot rebuild an allocation");
    }
  }
}

/**
 * Restores the directories of all allocations and the device-info of their devices where something else removed or
 * changed them: kubelet never repeats Allocate for a running pod, nor Multus what it has read. One that cannot be
 * restored does not keep the others.
 * @returns whether all are as recorded; those that have just been made are left to the next check
 */
export async function restoreArtefacts(scope: ReconcileScope, clock: Clock): Promise<boolean> {
  const { context, places, observer, logger } = scope;
  const nowMs = clock.now();
  let isComplete = true;
  const isSettled = ({ createdAt }: { createdAt: number }) => Math.abs(nowMs - createdAt) >= UNDER_WAY_MS;
  const isToBeThere = (port: PortRecord) => port.state === "attached" && isSettled(port);
  const restore = async ({ record, interfaces, newest }: RecordedAllocation) => {
    if (!isSettled(record)) {
      isComplete = false;
      return;
    }
    const wanted = directoriesOf(record, places, interfaces);
    const reason = directoryProblem(wanted);
    if (reason !== undefined) {
      observer.progress();
      await ensureSocketDirectories(wanted);
      observer.repaired("directory");
      logger.warn({ ...allocationFields(record), reason }, "restored the directories of an allocation");
    }
    for (const device of newest) restoreDeviceInfo(record, device, scope);
  };
  const failed = await attemptEach(scope, allocationsOf(context.records, isToBeThere), restore, {
    message: "cannot restore an allocation",
    fieldsOf: ({ record }) => allocationFields(record),
  });
  return isComplete && failed === 0;
}

function restoreDeviceInfo(
  record: AllocationRecord,
  device: string,
  { context, places, observer, logger }: ReconcileScope,
): void {
  const { file, info } = allocationDeviceInfo(record, device, places);
  const reason = deviceInfoProblem(file, info);
  if (reason === undefined) return;
  // The device may have been allocated again meanwhile, or its allocation be removed.
  if (newestAllocationOf(device, context.records.allocations.list())?.id !== record.id) return;
  writeDeviceInfo(file, info);
  observer.repaired("device-info");
  logger.warn({ ...allocationFields(record), device, file, reason }, "restored a device's device-info");
}

interface RecordedAllocation {
  readonly record: AllocationRecord;
  readonly interfaces: readonly PortRecord[];
  /** Devices of which this is the newest allocation, so that their device-info is of it. */
  readonly newest: readonly string[];
}

/** The allocations that are still recorded when it is their time. */
async function* allocationsOf(
  { allocations, ports }: Records,
  hasInterface: (port: PortRecord) => boolean,
): AsyncGenerator<RecordedAllocation> {
  const newest = newestAllocations(allocations.list());
  const byAllocation = Map.groupBy(ports.list().filter(hasInterface), ({ allocationId }) => allocationId);
  for (const [index, record] of allocations.list().entries()) {
    if (index % ALLOCATIONS_AT_ONCE === ALLOCATIONS_AT_ONCE - 1) await eventLoop();
    if (allocations.get(record.id) === undefined) continue;
    const devices = pluginDevicesOf(record).filter((device) => newest.get(device)?.id === record.id);
    yield { record, interfaces: byAllocation.get(record.id) ?? [], newest: devices };
  }
}
