import { allocationDirectory, podDirectory } from "../allocation/directory/layout.ts";
import { removeAllocationDirectory } from "../allocation/directory/remove.ts";
import {
  type AllocationPlaces,
  ensureAllocationDirectories,
  ensureDeviceInfo,
} from "../allocation/ensure-allocation.ts";
import { removeAllocation } from "../allocation/remove-allocation.ts";
import type { PoolConfig } from "../config/schema.ts";
import { allocationFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { nextSequence } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import type { AllocationAnswer } from "./allocation-answer.ts";

/** What an allocator of one pool works with. */
export interface AllocatorOptions {
  /** Read anew at every call. */
  readonly pool: PoolConfig;
  readonly places: AllocationPlaces;
  readonly allocations: RecordStore<AllocationRecord>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Answers Allocate for one container: a fresh directory for all its devices, mounted where every node mounts
 * it. Always fresh, also for devices that were given out before, because nobody tells whether the pod that had
 * them is gone; what the older allocation leaves is reclaimed later. One whose caller is gone is taken back: recorded
 * late, it could be taken for newer than that of the pod that got its devices instead.
 */
export function createAllocator(
  options: AllocatorOptions,
): (devices: readonly string[], signal?: AbortSignal) => Promise<AllocationAnswer> {
  const { places, allocations } = options;
  let sequence = nextSequence(allocations.list());
  return async (devices, signal) => {
    const { pool } = options;
    const record: AllocationRecord = {
      id: newAllocationId(),
      pool: pool.name,
      resource: pool.resource,
      devices: [...devices].sort(),
      ownership: pool.directory,
      dataplane: pool.dataplane,
      ...(pool.switchSockets === undefined ? {} : { switchSockets: pool.switchSockets }),
      socketServer: pool.socketServer ?? "guest",
      createdAt: options.clock.now(),
      sequence: sequence++,
    };
    await using undo = new AsyncDisposableStack();
    // What cannot be undone now the reconciler finds; the caller is to hear why Allocate failed.
    undo.defer(() => removeAllocationDirectory(places.root, record.id).catch(() => undefined));
    await ensureAllocationDirectories(record, places, signal).finally(() => signal?.throwIfAborted());
    await allocations.put(record);
    undo.defer(() => allocations.remove(record.id).catch(() => undefined));
    signal?.throwIfAborted();
    // First, and with what is there of device-info; whatever keeps that must not keep the record.
    undo.defer(() => removeAllocation(record, allocations, places).catch(() => undefined));
    ensureDeviceInfo(record, record.devices, places);
    undo.move();
    options.logger.info(allocationFields(record), "allocated");
    return answer(record, places);
  };
}

function answer(record: AllocationRecord, places: AllocationPlaces): AllocationAnswer {
  const directory = podDirectory(places.podRoot, record.pool);
  const prefix = `VHOSTUSER_${record.pool.toUpperCase().replaceAll("-", "_")}`;
  return {
    envs: { [`${prefix}_DIRECTORY`]: directory, [`${prefix}_DEVICES`]: record.devices.join(",") },
    mounts: [
      { containerPath: directory, hostPath: allocationDirectory(places.root, record.id), readOnly: false },
    ],
    annotations: {},
  };
}
