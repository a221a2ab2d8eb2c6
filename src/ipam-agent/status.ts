import { describeThrown, Failure } from "../failure/failure.ts";
import { countsOfSource } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import type { BlockSupply } from "./block-supply.ts";
import { requireClaims } from "./claims/claim-of-interface.ts";
import { type NetworkConfig, sourcesOf } from "./network-config.ts";
import type { OwnBlocks } from "./own-blocks.ts";

/** What STATUS works with beside the context. */
export interface StatusParts {
  readonly own: Pick<OwnBlocks, "confirm" | "readNodeUid">;
  readonly supply: Pick<BlockSupply, "problemOf">;
}

/**
 * STATUS: whether ADD could succeed now. It takes no block: a node that has no pod of the network needs none.
 * @throws Failure `not-ready` with the reason
 */
export async function status(
  config: NetworkConfig,
  { own, supply }: StatusParts,
  context: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const { state, clock, node } = context;
  try {
    await own.confirm(signal);
    if (config.allowPersistentIPs === true) await requireClaims(context, signal);
    for (const source of sourcesOf(config, state)) {
      if (source.shared === undefined) {
        if (countsOfSource(source, state, clock.monotonic()).free > 0) continue;
        const problem = supply.problemOf(source);
        if (problem !== undefined) throw problem;
      }
      // ADD would begin to take a block with this.
      await own.readNodeUid(signal);
    }
  } catch (error) {
    throw new Failure({
      code: "not-ready",
      what: describeThrown(error),
      where: `node ${node}`,
      cause: error,
    });
  }
}
