import { join } from "node:path";
import { type AllocationRecord, allocationRecordKind } from "./allocation-record.ts";
import { type PortRecord, portRecordKind } from "./port-record.ts";
import { RecordStore } from "./record-store.ts";

/** Everything this node remembers. */
export interface Records {
  readonly allocations: RecordStore<AllocationRecord>;
  readonly ports: RecordStore<PortRecord>;
}

/** Opens both stores below one directory. */
export async function openRecords(directory: string): Promise<Records> {
  const records = {
    allocations: await RecordStore.open(join(directory, "allocations"), allocationRecordKind),
    ports: await RecordStore.open(join(directory, "ports"), portRecordKind),
  };
  for (const port of records.ports.list()) notePod(records, port);
  return records;
}

/** Allocate is not told for which pod it is; an interface on it tells. */
export function notePod(records: Records, port: PortRecord): void {
  const { allocationId, podNamespace: namespace, podName: name, podUid: uid } = port;
  if (name === "") return;
  records.allocations.updateInMemory(allocationId, (now) => ({ ...now, pod: { namespace, name, uid } }));
}

/** The newest allocation that holds a device: kubelet gives an id out again once its pod is gone. */
export function newestAllocationOf(
  device: string,
  allocations: readonly AllocationRecord[],
): AllocationRecord | undefined {
  return newestAllocations(allocations.filter(({ devices }) => devices.includes(device))).get(device);
}

/** {@link newestAllocationOf} of every device that there is, in one walk. */
export function newestAllocations(
  allocations: readonly AllocationRecord[],
): ReadonlyMap<string, AllocationRecord> {
  const newest = new Map<string, AllocationRecord>();
  for (const allocation of allocations) {
    for (const device of allocation.devices) {
      const found = newest.get(device);
      if (found === undefined || allocation.sequence > found.sequence) newest.set(device, allocation);
    }
  }
  return newest;
}

/** The sequence number for the next allocation. */
export function nextSequence(allocations: readonly AllocationRecord[]): number {
  return allocations.reduce((highest, { sequence }) => Math.max(highest, sequence), 0) + 1;
}
