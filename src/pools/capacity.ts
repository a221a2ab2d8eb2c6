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
  /** By pool: ids of allocations that claims hold. */
  readonly #claims = new Map<string, Set<string>>();
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

  /** How many ports of a pool claims hold. */
  claimsOf(pool: string): number {
    return this.#claims.get(pool)?.size ?? 0;
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
    if (before?.holder.kind === "claim") this.#claims.get(before.pool)?.delete(before.id);
    if (after?.holder.kind === "claim")
      this.#claims.set(after.pool, (this.#claims.get(after.pool) ?? new Set()).add(after.id));
    const devicesOf = (record: AllocationRecord | undefined) => (record ? pluginDevicesOf(record) : []);
    for (const device of new Set([...devicesOf(before), ...devicesOf(after)])) {
      const others = (this.#holders.get(device) ?? []).filter(({ id }) => id !== before?.id);
      const records = after && devicesOf(after).includes(device) ? [...others, after] : others;
      records.sort((one, other) => one.sequence - other.sequence);
      if (records.length > 0) this.#holders.set(device, records);
      else this.#holders.delete(device);
      if (after === undefined && records.length === 0) this.#freed.set(device, ++this.#frees);
    }
  }
}

/**
 * How many of a pool's ports the device plugin and claims may give out. Where the configuration was changed, what one
 * side still holds beyond its part is not given out by the other.
 */
export function splitCapacity(
  { capacity, claims: { ports } = { ports: 0 } }: SplitPool,
  held: { readonly plugin: number; readonly claims: number },
): { readonly plugin: number; readonly claims: number } {
  return {
    plugin: Math.max(0, capacity - Math.max(ports, held.claims)),
    claims: Math.max(0, Math.min(ports, capacity - held.plugin)),
  };
}

/** A pool's capacity, and the part of it that is for claims. */
type SplitPool = Pick<PoolConfig, "capacity"> & {
  readonly claims?: { readonly ports: number } | undefined;
};

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
