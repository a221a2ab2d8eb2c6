import type { AllocationRecord } from "../records/allocation-record.ts";

/** The allocation records, as the device plugin sees them. */
export interface AllocationSource {
  list(): readonly AllocationRecord[];
  /** Calls `listener` after each change with what the record was and what it is, until the returned function is called. */
  subscribe(
    listener: (before: AllocationRecord | undefined, after: AllocationRecord | undefined) => void,
  ): () => void;
}

/** Above every count of releases: what is in use was used later than anything that was freed. */
const IN_USE = 2 ** 48;

/**
 * Which devices are in use, by their newest allocation's record, and how long the others have been free. kubelet may
 * take a device for free some time before its record is reclaimed; until then it counts as in use.
 */
export class DeviceUses {
  /** By pool, by device, by allocation. */
  readonly #pools = new Map<string, Map<string, Map<string, AllocationRecord>>>();
  /** By device: how many devices had been freed when it was. */
  readonly #freed = new Map<string, number>();
  readonly #listeners = new Set<(devices: readonly string[]) => void>();
  readonly #unsubscribe: () => void;
  #frees = 0;

  constructor(allocations: AllocationSource) {
    for (const record of allocations.list()) this.#add(record);
    this.#unsubscribe = allocations.subscribe((before, after) => {
      if (before !== undefined) this.#remove(before, after === undefined);
      if (after !== undefined) this.#add(after);
      const devices = [...new Set([...(before?.devices ?? []), ...(after?.devices ?? [])])];
      for (const listener of this.#listeners) listener(devices);
    });
  }

  /** Pools of which a device is in use. */
  pools(): readonly string[] {
    return [...this.#pools.keys()];
  }

  /** Whether any device of a pool is in use. */
  has(pool: string): boolean {
    return this.#pools.has(pool);
  }

  /** The newest allocation of a pool that tells the pool's switch; undefined where none does. */
  newestWithSwitch(pool: string): AllocationRecord | undefined {
    const records = [...(this.#pools.get(pool)?.values() ?? [])].flatMap((ofDevice) => [...ofDevice]);
    return newest(new Map(records.filter(([, { dataplane }]) => dataplane !== undefined)));
  }

  /** The devices of a pool that are in use, each with the resource under which a pod got it. */
  ofPool(pool: string): ReadonlyMap<string, string> {
    const devices = [...(this.#pools.get(pool) ?? [])];
    return new Map(
      devices.flatMap(([device, records]) => {
        const record = newest(records);
        return record === undefined ? [] : [[device, record.resource]];
      }),
    );
  }

  /** The resource under which a pod got this device; undefined where it is free. */
  resourceOf(pool: string, device: string): string | undefined {
    return newest(this.#pools.get(pool)?.get(device))?.resource;
  }

  /**
   * Orders devices by the end of their last use: 0 where no use is known, greatest where they are in use. What was
   * freed before this process began counts as never used, unless its record is still there.
   */
  lastUse(pool: string, device: string): number {
    const record = newest(this.#pools.get(pool)?.get(device));
    return record === undefined ? (this.#freed.get(device) ?? 0) : IN_USE + record.sequence;
  }

  /** Tells of devices whose use may have changed. */
  subscribe(listener: (devices: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#unsubscribe();
    this.#listeners.clear();
  }

  #add(record: AllocationRecord): void {
    const devices = this.#pools.get(record.pool) ?? new Map<string, Map<string, AllocationRecord>>();
    this.#pools.set(record.pool, devices);
    for (const device of record.devices) {
      const records = devices.get(device) ?? new Map<string, AllocationRecord>();
      devices.set(device, records.set(record.id, record));
    }
  }

  #remove(record: AllocationRecord, isFreed: boolean): void {
    const devices = this.#pools.get(record.pool);
    for (const device of record.devices) {
      const records = devices?.get(device);
      records?.delete(record.id);
      if (records?.size !== 0) continue;
      devices?.delete(device);
      if (isFreed) this.#freed.set(device, ++this.#frees);
    }
    if (devices?.size === 0) this.#pools.delete(record.pool);
  }
}

function newest(records: ReadonlyMap<string, AllocationRecord> | undefined): AllocationRecord | undefined {
  let found: AllocationRecord | undefined;
  for (const record of records?.values() ?? []) {
    if (found === undefined || record.sequence > found.sequence) found = record;
  }
  return found;
}
