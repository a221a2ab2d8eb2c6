import { blockStatusUpdate, parseAddressBlock } from "../address-objects/address-block.ts";
import { ADDRESS_BLOCKS, statusOf } from "../address-objects/resources.ts";
import { describeThrown } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import type { OwnBlocks } from "./own-blocks.ts";

/** Writes how many addresses are in use into the status of each block where that has changed, for people to read. */
export async function reportUsed(
  { api, state, logger }: AgentContext,
  own: Pick<OwnBlocks, "standingOf">,
  signal: AbortSignal,
): Promise<void> {
  for (const held of [...state.blocks.values()]) {
    const { name, used } = held;
    if (!held.isUsable || held.reportedUsed === used) continue;
    try {
      const block = parseAddressBlock(await api.get(ADDRESS_BLOCKS, name, signal));
      if (own.standingOf(block) !== "ours") continue;
      if (block.used !== used)
        await api.update(statusOf(ADDRESS_BLOCKS), blockStatusUpdate(block, used), signal);
      held.reportedUsed = used;
    } catch (error) {
      signal.throwIfAborted();
      logger.debug({ block: name, reason: describeThrown(error) }, "a block's status cannot be written");
    }
  }
}
