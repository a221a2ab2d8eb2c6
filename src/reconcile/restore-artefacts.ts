import { setImmediate as nextTurn } from "node:timers/promises";
import { deviceInfoProblem, writeDeviceInfo } from "../allocation/device-info/device-info-file.ts";
import { directoryProblem } from "../allocation/directory/directory-problem.ts";
import { RoomForMany } from "../allocation/directory/room-for-many.ts";
import { allocationDeviceInfo } from "../allocation/ensure-allocation.ts";
import { describeThrown } from "../failure/failure.ts";
import { allocationFields } from "../logging/fields.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { newestAllocationOf, newestAllocations } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { expectedDirectories } from "./expected-directories.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** A look at one takes some 0.015 ms; after so many the event loop is left to others. */
const LOOKED_AT_PER_TURN = 50;
/** Whoever records something makes it in this time, or takes the record back. */
const UNDER_WAY_MS = 5_000;

/**
 * Makes the directories of all allocations and the device-info of their devices anew where somebody removed or changed
 * them: kubelet never repeats Allocate for a running pod, nor Multus what it has read. One that cannot be made keeps
 * nobody else.
 */
export async function restoreArtefacts(pass: ReconcilePass, clock: Clock): Promise<void> {
  const nowMs = clock.now();
  const room = new RoomForMany(clock);
  const { allocations, ports } = pass.context.records;
  const isSettled = ({ createdAt }: { createdAt: number }) => Math.abs(nowMs - createdAt) >= UNDER_WAY_MS;
  const newest = newestAllocations(allocations.list());
  const attached = ports.list().filter((port) => port.state === "attached" && isSettled(port));
  const byAllocation = Map.groupBy(attached, ({ allocationId }) => allocationId);
  for (const [index, record] of allocations.list().entries()) {
    if (index % LOOKED_AT_PER_TURN === LOOKED_AT_PER_TURN - 1) await nextTurn();
    if (pass.stop.aborted) return;
    if (!isSettled(record) || allocations.get(record.id) === undefined) continue;
    try {
      await restoreDirectories(record, byAllocation.get(record.id) ?? [], room, pass);
      for (const device of record.devices) {
        if (newest.get(device)?.id === record.id) restoreDeviceInfo(record, device, pass);
      }
    } catch (error) {
      pass.observer.itemFailed(error);
      const reason = describeThrown(error);
      pass.logger.warn({ ...allocationFields(record), reason }, "an allocation cannot be restored");
    }
  }
}

async function restoreDirectories(
  record: AllocationRecord,
  ports: readonly PortRecord[],
  room: RoomForMany,
  pass: ReconcilePass,
): Promise<void> {
  const expected = expectedDirectories(record, ports, pass.places);
  const reason = directoryProblem(expected);
  if (reason === undefined) return;
  await room.ensure(expected, portSignal(pass));
  pass.observer.repaired("directory");
  pass.logger.warn({ ...allocationFields(record), reason }, "restored the directories of an allocation");
}

function restoreDeviceInfo(record: AllocationRecord, device: string, pass: ReconcilePass): void {
  const { file, info } = allocationDeviceInfo(record, device, pass.places);
  const reason = deviceInfoProblem(file, info);
  if (reason === undefined) return;
  // Meanwhile the device may have been allocated anew, or its allocation be removed.
  const { allocations } = pass.context.records;
  if (newestAllocationOf(device, allocations.list())?.id !== record.id) return;
  writeDeviceInfo(file, info);
  pass.observer.repaired("device-info");
  pass.logger.warn({ ...allocationFields(record), device, file, reason }, "restored a device's device-info");
}
