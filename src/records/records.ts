import { join } from "node:path";
import { type AllocationRecord, allocationRecordKind } from "./allocation-record.ts";
import { type PortRecord, portRecordKind, portRecordName } from "./port-record.ts";
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
  await endSuperseded(records.ports);
  for (const port of records.ports.list()) notePod(records, port);
  return records;
}

/**
 * Ends attachments whose socket a later one has taken. ADD ends the older sandbox's, unless it could not read its record,
 * which another release had written or which was torn: then both are there once it can be read, and each would take
 * the other's port for a rival. The port itself goes when the later one's is looked at. What the disk does not take is
 * left for the next start.
 */
async function endSuperseded(ports: RecordStore<PortRecord>): Promise<void> {
  const attached = ports.list().filter(({ state }) => state === "attached");
  for (const sharing of Map.groupBy(attached, ({ switchSocketPath }) => switchSocketPath).values()) {
    const [, ...older] = sharing.toSorted((one, other) => other.createdAt - one.createdAt);
    for (const { containerId, interfaceName, ipam } of older) {
      const name = portRecordName(containerId, interfaceName);
      const ended =
        ipam === undefined
          ? ports.remove(name)
          : ports.update(name, (now) => now && { ...now, state: "releasing" });
      await ended.catch(() => undefined);
    }
  }
}

/** Allocate is not told for which pod it is; an interface on it tells. */
export function notePod(records: Records, port: PortRecord): void {
  const { allocationId, podNamespace: namespace, podName: name, podUid: uid } = port;
  if (name === "") return;
  records.allocations.updateInMemory(allocationId, (now) => ({ ...now, pod: { namespace, name, uid } }));
}

/**
 * Whether a record of another release speaks of a port or an allocation by its name. What else it says is not
 * understood, so what it speaks of is that release's to judge.
 */
export function isNamedByForeign({ allocations, ports }: Records, name: string): boolean {
  return allocations.isNamedByForeign(name) || ports.isNamedByForeign(name);
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
