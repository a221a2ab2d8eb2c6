import type { AddressPool } from "../address-objects/address-pool.ts";
import type { AddressSpace } from "../address-objects/address-space.ts";
import type { BlockPrefixes } from "../addresses/grid.ts";
import { Failure } from "../failure/failure.ts";
import type { BlockCounts, HeldBlock } from "./held-block.ts";
import type { NodeState } from "./node-state.ts";

/** What one address of an interface comes from: a pool, or a set of ranges in the network's configuration. */
export interface AddressSource
  extends Pick<
    AddressPool,
    "space" | "family" | "subnets" | "usable" | "routes" | "dns" | "cooldownSeconds"
  > {
  /** Equal for equal sources: `pool blue`, or the network and what its ranges are. */
  readonly key: string;
  /** Undefined for ranges. */
  readonly pool: string | undefined;
  /** Where each address is an AddressAllocation of its own: the pool. */
  readonly shared?: AddressPool;
}

/** @throws Failure `pool-missing` */
export function sourceOfPool(name: string, { pools }: Pick<NodeState, "pools">): AddressSource {
  const pool = pools.get(name);
  if (pool === undefined || pool.isDeleting) throw missing("AddressPool", name);
  const source = { ...pool, key: `pool ${name}`, pool: name };
  return pool.mode === "PerAddress" ? { ...source, shared: pool } : source;
}

/** The lengths of a space's blocks. @throws Failure `pool-missing` */
export function blockPrefixesOf({ space }: AddressSource, state: NodeState): BlockPrefixes {
  return spaceOf(space, state).blockPrefixes;
}

/** @throws Failure `pool-missing` */
export function spaceOf(name: string, { spaces }: NodeState): AddressSpace {
  const found = spaces.get(name);
  if (found === undefined) throw missing("AddressSpace", name);
  return found;
}

/** This node's blocks in which a source may have addresses. */
export function blocksOfSource(
  { space, family }: AddressSource,
  { blocks }: NodeState,
): readonly HeldBlock[] {
  return [...blocks.values()].filter(
    ({ entry, prefix }) => entry.space === space && prefix.family === family,
  );
}

/** Counts of a source's addresses in blocks from which this node may hand out. */
export function countsOfSource(
  source: AddressSource,
  state: NodeState,
  nowMs: number,
  except?: HeldBlock,
): BlockCounts {
  const sum = { free: 0, resting: 0, used: 0 };
  for (const block of blocksOfSource(source, state)) {
    if (!block.isUsable || block === except) continue;
    const { free, resting, used } = block.counts(source.usable, nowMs, source.cooldownSeconds * 1000);
    sum.free += free;
    sum.resting += resting;
    sum.used += used;
  }
  return sum;
}

/** For an object that a network needs. */
export function missing(kind: "AddressPool" | "AddressSpace", name: string): Failure {
  return new Failure({
    code: "pool-missing",
    what: `there is no ${kind} ${name} that can be used`,
    where: "ipam section of the network's configuration",
    fix: `create it, or correct what kubectl describe ${kind.toLowerCase()} ${name} shows`,
  });
}
