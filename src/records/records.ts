import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Logger, silentLogger } from "../logging/logger.ts";
import {
  type AllocationRecord,
  allocationRecordKind,
  type ClaimAllocation,
  isOfClaim,
  pluginDevicesOf,
} from "./allocation-record.ts";
import { type PortIdentity, type PortRecord, portKey, portRecordKind } from "./port-record.ts";
import { RecordStore, readRecordsOf } from "./record-store.ts";

/** Everything this node remembers. */
export interface Records {
  readonly allocations: RecordStore<AllocationRecord>;
  readonly ports: RecordStore<PortRecord>;
  /** The boot that the node runs in. */
  readonly bootId: string;
}

/** Changes with every boot of the node (random(4)). */
const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";

/**
 * Opens both stores below one directory.
 * @throws Failure `record-unreadable` where records are of a newer version than this release reads
 */
export async function openRecords(
  directory: string,
  logger: Logger = silentLogger,
  bootId: string = readFileSync(BOOT_ID_FILE, "utf8").trim(),
): Promise<Records> {
  const records = {
    allocations: await RecordStore.open(join(directory, "allocations"), allocationRecordKind, logger),
    ports: await RecordStore.open(join(directory, "ports"), portRecordKind, logger),
    bootId,
  };
  for (const port of records.ports.list()) {
    notePod(records, port);
    if (port.bootId === bootId) continue;
    // Every request of this boot started later.
    records.ports.updateInMemory(portKey(port), (record) => ({ ...record, bootId, startedAtMs: 0 }));
  }
  return records;
}

/**
 * Reads both kinds of records and changes nothing: the daemon, which owns them, may be running.
 * @throws as {@link openRecords}
 */
export async function readRecords(directory: string) {
  const allocations = await readRecordsOf(join(directory, "allocations"), allocationRecordKind);
  const ports = await readRecordsOf(join(directory, "ports"), portRecordKind);
  return {
    allocations: [...allocations.values.values()],
    ports: [...ports.values.values()],
    unreadable: [...allocations.damaged, ...ports.damaged],
  };
}

/** Kubelet does not say for which pod an Allocate is; a port on the allocation does. */
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
  return newestAllocations(allocations.filter((one) => pluginDevicesOf(one).includes(device))).get(device);
}

/** {@link newestAllocationOf} of every device that there is, in one walk. */
export function newestAllocations(
  allocations: readonly AllocationRecord[],
): ReadonlyMap<string, AllocationRecord> {
  const newest = new Map<string, AllocationRecord>();
  for (const allocation of allocations) {
    for (const device of pluginDevicesOf(allocation)) {
      const found = newest.get(device);
      if (found === undefined || allocation.sequence > found.sequence) newest.set(device, allocation);
    }
  }
  return newest;
}

/** What is recorded for a claim, released or not. */
export function allocationsOfClaim(
  allocations: readonly AllocationRecord[],
  uid: string,
): readonly ClaimAllocation[] {
  return allocations.filter(isOfClaim).filter(({ holder }) => holder.uid === uid);
}

/** The next sequence number of each store. */
const sequences = new WeakMap<Records["allocations"], number>();

/**
 * Takes sequence numbers for new allocations, above all that were taken or are recorded.
 * @returns the first of `count`
 */
export function takeSequences(allocations: Records["allocations"], count = 1): number {
  const recorded = () =>
    allocations.list().reduce((highest, { sequence }) => Math.max(highest, sequence), 0) + 1;
  const next = sequences.get(allocations) ?? recorded();
  sequences.set(allocations, next + count);
  return next;
}

/**
 * Changes a port's record where there is one. With a disk that takes no writes the change is in memory only: what removes
 * things must proceed, because the request may never be repeated.
 */
export async function updatePort(
  ports: RecordStore<PortRecord>,
  identity: PortIdentity,
  change: (record: PortRecord) => PortRecord,
): Promise<void> {
  await ports.update(portKey(identity), (record) => record && change(record), "keep in memory");
}
