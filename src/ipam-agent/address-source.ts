import type { AddressPool } from "../address-objects/address-pool.ts";
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
}

/** @throws Failure `pool-missing`, `unsupported-field` for a pool of a mode that is not supported */
export function sourceOfPool(name: string, { pools }: Pick<NodeState, "pools">): AddressSource {
  const pool = pools.get(name);
  if (pool === undefined) throw missing("AddressPool", name);
  if (pool.mode === "NodeBlocks") return { ...pool, key: `pool ${name}`, pool: name };
  throw new Failure({
    code: "unsupported-field",
    what: `pool ${name} has mode ${pool.mode}, which this release does not support`,
    where: `AddressPool ${name}, spec.mode`,
    fix: "use a pool of mode NodeBlocks",
  });
}

/** The lengths of a space's blocks. @throws Failure `pool-missing` */
export function blockPrefixesOf({ space }: AddressSource, { spaces }: NodeState): BlockPrefixes {
  const found = spaces.get(space);
  if (found === undefined) throw missing("AddressSpace", space);
  return found.blockPrefixes;
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
