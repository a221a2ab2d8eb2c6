// Blocks for pools that hand out each address by itself: agents must not create blocks that belong to no node.
import { newBlock } from "../address-objects/address-block.ts";
import type { AddressPool } from "../address-objects/address-pool.ts";
import type { AddressSpace } from "../address-objects/address-space.ts";
import { ADDRESS_BLOCKS, blockName } from "../address-objects/resources.ts";
import { blockAt, blocksOf } from "../addresses/grid.ts";
import { rangeOf } from "../addresses/subnet.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";

/** So many addresses at least are free in a pool's shared blocks, or this part of those that are used. */
const FREE_AHEAD = 256;
const FREE_PART = 0.1;
/** Of one pool in one pass. */
const MAX_NEW = 64;

/**
 * Makes shared blocks for pools whose addresses are allocated one by one, before they are needed. Creating a block is what takes it,
 * so that two controllers, or a controller and a node, never have the same one. return-shared-blocks.ts gives back those that are empty.
 * @param waitingFor how many claims wait for an address of a pool; undefined for a pool that needs no shared blocks
 * @returns whether nothing failed
 */
export async function ensureSharedBlocks(
  context: ControllerContext,
  waitingFor: (pool: AddressPool) => number | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { view } = context;
  let isComplete = true;
  for (const { pool } of view.pools.entries.values()) {
    const waiting = typeof pool === "string" ? undefined : waitingFor(pool);
    if (typeof pool === "string" || waiting === undefined) continue;
    const space = view.spaces.entries.get(pool.space);
    if (space === undefined) continue;
    try {
      await ensureForPool(context, pool, space, waiting, signal);
    } catch (error) {
      signal.throwIfAborted();
      isComplete = false;
      context.onFailure({ pool: pool.name }, "a shared block for a pool of addresses cannot be made", error);
    }
  }
  return isComplete;
}

/**
 * How many addresses are free in a pool's shared blocks, and how many are to be, as the watches show it.
 * @param waiting how many claims wait for one
 */
export function aheadOf(
  { space, family, usable }: AddressPool,
  view: ControllerContext["view"],
  waiting: number,
): { readonly free: number; readonly wanted: number } {
  let [free, used] = [0, 0];
  for (const [name, block] of view.blocks.entries) {
    if (block?.owner.kind !== "Shared" || block.space !== space || block.prefix.family !== family) continue;
    if (block.state !== "Bound") continue;
    const size = Number(usable.clip(rangeOf(block.prefix)).size);
    const inUse = Math.min(size, view.allocationsIn.get(name) ?? 0);
    free += size - inUse;
    used += inUse;
  }
  return { free, wanted: waiting + Math.max(FREE_AHEAD, used * FREE_PART) };
}

async function ensureForPool(
  { api, view, counts, logger }: ControllerContext,
  pool: AddressPool,
  { blockPrefixes }: AddressSpace,
  waiting: number,
  signal: AbortSignal,
): Promise<void> {
  const { name, space, family, usable } = pool;
  const ahead = aheadOf(pool, view, waiting);
  let { free } = ahead;
  const { wanted } = ahead;
  let made = 0;
  for (const number of blocksOf(usable, family, blockPrefixes).values()) {
    if (free >= wanted || made >= MAX_NEW) break;
    const prefix = blockAt(number, family, blockPrefixes);
    if (view.blocks.entries.has(blockName(space, prefix))) continue;
    const block = newBlock({ space, prefix, owner: { kind: "Shared" }, state: "Bound", pool: name });
    try {
      await api.create(ADDRESS_BLOCKS, block, signal);
    } catch (error) {
      // A node, or another controller, has taken it.
      if (isOvertaken(error)) continue;
      throw error;
    }
    free += Number(usable.clip(rangeOf(prefix)).size);
    made += 1;
  }
  if (made === 0) return;
  counts.blocksShared += made;
  logger.info({ pool: name, changed: made }, "shared blocks were made for a pool of addresses");
}
