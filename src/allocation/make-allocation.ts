import type { PoolConfig } from "../config/schema.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import { present } from "../names/present.ts";
import { type AllocationRecord, pluginDevicesOf } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { type AllocationPlaces, directoriesOf, ensureDeviceInfo, removeAllocation } from "./allocation.ts";
import { removeAllocationDirectory } from "./set-aside.ts";
import { ensureSocketDirectories } from "./socket-directories.ts";

/** The record of a new allocation of a pool, as its configuration is now. */
export function planAllocation(
  pool: PoolConfig,
  holder: AllocationRecord["holder"],
  made: Pick<AllocationRecord, "createdAt" | "sequence">,
  socketServer: AllocationRecord["socketServer"] = pool.socketServer ?? "guest",
): AllocationRecord {
  const { name, directory: ownership, dataplane, switchSockets } = pool;
  return present({
    ...{ id: newAllocationId(), pool: name, holder, ownership, dataplane, switchSockets, socketServer },
    ...made,
  });
}

/**
 * Makes what a recorded allocation consists of: directories first, so that the record names nothing that is missing, then
 * the record and device-info. What was made is removed again where a step fails, and what cannot be the reconciler
 * removes; the caller gets the error of the step.
 * @param signal fires when the caller no longer waits: what was made must then be removed
 */
export async function makeAllocation(
  record: AllocationRecord,
  at: { readonly places: AllocationPlaces; readonly allocations: RecordStore<AllocationRecord> },
  signal?: AbortSignal,
): Promise<void> {
  const { places, allocations } = at;
  await using undo = new AsyncDisposableStack();
  undo.defer(() => removeAllocationDirectory(places.root, record.id).catch(() => undefined));
  await ensureSocketDirectories(directoriesOf(record, places)).finally(() => signal?.throwIfAborted());

  await allocations.put(record);
  undo.defer(() => allocations.remove(record.id).catch(() => undefined));
  signal?.throwIfAborted();

  // Undone first: device-info that cannot be removed must not keep the record.
  undo.defer(() => removeAllocation(record, allocations, places).catch(() => undefined));
  ensureDeviceInfo(record, pluginDevicesOf(record), places);
  undo.move();
}
