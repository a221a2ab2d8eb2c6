// Which of a pool's numbered devices can be given out, and which were free for longest.
import type { PoolConfig } from "../config/schema.ts";
import { parseDeviceId } from "../names/device-id.ts";
import { type AllocationRecord, pluginDevicesOf, resourceOf } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";

/** Above every count of releases: what is in use was used later than anything that was freed. */
const IN_USE = 2 ** 48;

/**
 * Which devices are in use, by their newest allocation's record, and in which order the others were freed. kubelet may
 * count a device as free before its record is reclaimed; until then it is in use here.
 */
export class DeviceUses {
  /** Allocations of each device that is in use, newest last. */
  readonly #holders = new Map<string, readonly AllocationRecord[]>();
  /** By device: how many devices had been freed when it was. */
  readonly #freed = new Map<string, number>();
  readonly #unsubscribe: () => void;
  #frees = 0;
  #changes = 0;

  constructor(allocations: Pick<RecordStore<AllocationRecord>, "list" | "subscribe">) {
    for (const record of allocations.list()) this.#change(undefined, record);
    this.#unsubscribe = allocations.subscribe((before, after) => this.#change(before, after));
  }

  /** Grows with every change of any use. */
  get changes(): number {
    return this.#changes;
  }

  /** Numbers of a pool's devices that pods hold, with the resource under which they were allocated. */
  ofPool(pool: string): ReadonlyMap<number, string> {
    const held = new Map<number, string>();
    for (const [device, records] of this.#holders) {
      const parsed = parseDeviceId(device);
      const newest = records.at(-1);
      if (parsed?.pool === pool && newest !== undefined) held.set(parsed.index, resourceOf(newest));
    }
    return held;
  }

  /**
   * Orders devices by the end of their last use: 0 where no use is known, greatest where they are in use. What was
   * freed before this process began counts as never used.
   */
  lastUse(device: string): number {
    const newest = this.#holders.get(device)?.at(-1);
    return newest === undefined ? (this.#freed.get(device) ?? 0) : IN_USE + newest.sequence;
  }

  close(): void {
    this.#unsubscribe();
  }

  #change(before: AllocationRecord | undefined, after: AllocationRecord | undefined): void {
    this.#changes += 1;
    if (before !== undefined) this.#remove(before, after === undefined);
    if (after !== undefined) this.#add(after);
  }

  #add(record: AllocationRecord): void {
    for (const device of pluginDevicesOf(record)) {
      const records = [...(this.#holders.get(device) ?? []), record];
      records.sort((one, other) => one.sequence - other.sequence);
      this.#holders.set(device, records);
    }
  }

  #remove(record: AllocationRecord, isFreed: boolean): void {
    for (const device of pluginDevicesOf(record)) {
      const others = (this.#holders.get(device) ?? []).filter(({ id }) => id !== record.id);
      if (others.length > 0) this.#holders.set(device, others);
      else {
        this.#holders.delete(device);
        if (isFreed) this.#freed.set(device, ++this.#frees);
      }
    }
  }
}

/**
 * The devices that a resource offers: all that pods hold under it, whatever the capacity is by now, and free ones with
 * a number below the capacity until there are as many as the capacity says. A device that a pod still holds under a
 * former name of the resource is left out, for a second pod would get the first one's socket.
 * @param held {@link DeviceUses.ofPool}
 * @returns numbers, ascending
 */
export function planDevices(
  { capacity, resource }: Pick<PoolConfig, "capacity" | "resource">,
  held: ReadonlyMap<number, string>,
): readonly number[] {
  const offered = [...held].flatMap(([index, under]) => (under === resource ? [index] : []));
  for (let index = 0; index < capacity && offered.length < capacity; index++) {
    if (!held.has(index)) offered.push(index);
  }
  return offered.sort((one, other) => one - other);
}
