import type { AddressPool } from "../address-objects/address-pool.ts";
import { parsePrefix } from "../addresses/address.ts";
import type { RangeSet } from "../addresses/range-set.ts";
import { rangeOf } from "../addresses/subnet.ts";
import type { BlockEntry, ClusterView } from "./cluster-view.ts";

/** How many addresses a pool has, and where they are. Addresses of overlapping pools count in each of them. */
export interface PoolCounts {
  readonly total: bigint;
  /** In blocks that have an owner. */
  readonly inBlocks: number;
  /** Handed out, as agents last said, or in quarantine. */
  readonly used: number;
  readonly blocks: number;
  /** Nodes that have blocks of the pool, and no free address in them. */
  readonly fullNodes: number;
}

/** A pool that can be used. */
type Usable = Pick<AddressPool, "name" | "space" | "family" | "usable">;

/** The addresses of one block that a pool has. */
interface Part {
  readonly pool: string;
  readonly size: number;
}

interface Sum {
  inBlocks: number;
  used: number;
  blocks: number;
  /** Free addresses by node. */
  readonly freeOn: Map<string, number>;
}

/** Counts the addresses of all pools; what blocks have of which pool is kept until pools change. */
export class PoolCounter {
  readonly #view: ClusterView;
  #poolsRevision = -1;
  #pools: readonly Usable[] = [];
  /** By block. */
  readonly #parts = new Map<string, readonly Part[]>();
  #overlaps: ReadonlyMap<string, readonly string[]> = new Map();
  #podCidrs: ReadonlyMap<string, string> = new Map();

  constructor(view: ClusterView) {
    this.#view = view;
  }

  /** By pool, of pools that can be used. */
  count(): ReadonlyMap<string, PoolCounts> {
    this.#followPools();
    const { blocks, allocationsIn } = this.#view;
    const sums = new Map(this.#pools.map(({ name }) => [name, emptySum()]));
    for (const [name, block] of blocks.entries) {
      if (block === undefined) continue;
      for (const { pool, size } of this.#partsOf(name, block)) {
        const sum = sums.get(pool);
        if (sum !== undefined) addBlock(sum, block, size, allocationsIn.get(name) ?? 0);
      }
    }
    for (const name of this.#parts.keys()) if (!blocks.entries.has(name)) this.#parts.delete(name);
    return new Map(
      this.#pools.map(({ name, usable: { size: total } }) => {
        const { freeOn, ...sum } = sums.get(name) ?? emptySum();
        const fullNodes = [...freeOn.values()].filter((free) => free <= 0).length;
        return [name, { total, ...sum, fullNodes }];
      }),
    );
  }

  /** Pools of the same space that have addresses of this one. */
  overlapsOf(pool: string): readonly string[] {
    this.#followPools();
    return this.#overlaps.get(pool) ?? [];
  }

  /** A network of the cluster's own pods that has addresses of this pool, of any node. */
  podCidrIn(pool: string): string | undefined {
    this.#followPools();
    return this.#podCidrs.get(pool);
  }

  #followPools(): void {
    const { pools, poolsRevision } = this.#view;
    if (this.#poolsRevision === poolsRevision) return;
    this.#poolsRevision = poolsRevision;
    this.#pools = [...pools.entries.values()].flatMap(({ pool }) => (typeof pool === "string" ? [] : [pool]));
    this.#parts.clear();
    this.#overlaps = overlapsAmong(this.#pools);
    const cidrs = [...this.#view.nodes.entries.values()].flatMap(({ podCidrs }) => podCidrs);
    this.#podCidrs = podCidrsAmong(this.#pools, cidrs);
  }

  #partsOf(name: string, { space, prefix }: BlockEntry): readonly Part[] {
    const known = this.#parts.get(name);
    if (known !== undefined) return known;
    const parts = this.#pools.flatMap((pool) => {
      if (pool.space !== space || pool.family !== prefix.family) return [];
      const size = Number(pool.usable.clip(rangeOf(prefix)).size);
      return size > 0 ? [{ pool: pool.name, size }] : [];
    });
    this.#parts.set(name, parts);
    return parts;
  }
}

function emptySum(): Sum {
  return { inBlocks: 0, used: 0, blocks: 0, freeOn: new Map() };
}

/** @param allocations how many addresses of the block have an allocation */
function addBlock(sum: Sum, { owner, state, used = 0 }: BlockEntry, size: number, allocations: number): void {
  const isRestricted = state === "Quarantined";
  const inUse = isRestricted ? size : Math.min(owner.kind === "Shared" ? allocations : used, size);
  sum.inBlocks += size;
  sum.used += inUse;
  sum.blocks += 1;
  if (owner.kind !== "Node" || isRestricted) return;
  sum.freeOn.set(owner.name, (sum.freeOn.get(owner.name) ?? 0) + size - inUse);
}

function overlapsAmong(pools: readonly Usable[]): ReadonlyMap<string, readonly string[]> {
  const overlaps = new Map<string, string[]>();
  const note = (one: Usable, other: Usable) =>
    overlaps.set(one.name, [...(overlaps.get(one.name) ?? []), other.name]);
  for (const [index, one] of pools.entries()) {
    for (const other of pools.slice(index + 1)) {
      const isComparable = one.space === other.space && one.family === other.family;
      if (!isComparable || !overlap(one.usable, other.usable)) continue;
      note(one, other);
      note(other, one);
    }
  }
  return overlaps;
}

function podCidrsAmong(pools: readonly Usable[], cidrs: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const cidr of cidrs) {
    const prefix = parsePrefix(cidr);
    if (prefix === undefined) continue;
    for (const { name, family, usable } of pools)
      if (family === prefix.family && usable.clip(rangeOf(prefix)).size > 0n) found.set(name, cidr);
  }
  return found;
}

function overlap(one: RangeSet, other: RangeSet): boolean {
  return one.ranges.some((range) => other.clip(range).size > 0n);
}
