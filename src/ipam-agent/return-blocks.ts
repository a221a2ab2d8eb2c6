import type { AddressPool } from "../address-objects/address-pool.ts";
import { rangeOf } from "../addresses/subnet.ts";
import { type AddressSource, sourceOfPool } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import type { BlockSupply } from "./block-supply.ts";
import type { HeldBlock } from "./held-block.ts";
import { blockLock, type OwnBlocks } from "./own-blocks.ts";

/** How long a block is empty before it is given back, in milliseconds. */
const IDLE_MS = 5 * 60_000;

/**
 * Gives back blocks that have been empty for five minutes, where the pool's others have more free addresses than the
 * low-water mark, and none of the block rests.
 * @throws Failure `record-unwritable`
 */
export async function returnBlocks(
  context: AgentContext,
  own: Pick<OwnBlocks, "lookAt">,
  supply: Pick<BlockSupply, "isLow">,
  signal: AbortSignal,
): Promise<void> {
  const { state, locks, clock } = context;
  const isSpare = (block: HeldBlock): boolean => {
    const { idleSinceMs, isUsable, entry } = block;
    const now = clock.monotonic();
    if (!isUsable || idleSinceMs === undefined || now - idleSinceMs < IDLE_MS) return false;
    const pools = [...state.pools.values()].filter((pool) => isOf(block, pool));
    const longestMs = Math.max(0, ...pools.map(({ cooldownSeconds }) => cooldownSeconds * 1000));
    if (now - idleSinceMs < longestMs) return false;
    // Of ranges, or of a pool that is gone: it is taken again when it is needed.
    const sources = pools.flatMap((pool) => sourceIn(pool, context));
    return entry.pool === undefined || sources.every((source) => !supply.isLow(source, block));
  };
  for (const block of [...state.blocks.values()]) {
    if (block.entry.state !== "bound") {
      // A lost one that is empty by now, or the delete of one that failed.
      if (block.used === 0) own.lookAt(block.name);
      continue;
    }
    if (!isSpare(block)) continue;
    await locks.run(blockLock(block.name, "the return", signal), async () => {
      if (!isSpare(block)) return;
      // From here on no ADD picks of it, also while the disk is written.
      block.isSuspended = true;
      await state.putBlock(block.name, { ...block.entry, state: "releasing" }).catch((error: unknown) => {
        block.isSuspended = false;
        throw error;
      });
    });
    own.lookAt(block.name);
  }
}

/** Whether a pool has addresses of a block. */
function isOf({ entry, prefix }: HeldBlock, { space, family, usable }: AddressPool): boolean {
  return entry.space === space && prefix.family === family && usable.clip(rangeOf(prefix)).size > 0n;
}

function sourceIn({ name }: AddressPool, { state }: AgentContext): readonly AddressSource[] {
  try {
    const source = sourceOfPool(name, state);
    return source.shared === undefined ? [source] : [];
  } catch {
    return [];
  }
}
