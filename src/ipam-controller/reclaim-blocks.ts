// Blocks of nodes that are gone: two looks, quarantine, two looks after the cooldown, deletion.
import { type BlockOwner, changedBlock } from "../address-objects/address-block.ts";
import { ADDRESS_BLOCKS } from "../address-objects/resources.ts";
import type { BlockEntry } from "./cluster-view.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";
import { lookAtNode, readNow, whyGone } from "./look.ts";
import { LOOKS_MS, Sightings } from "./sightings.ts";

/** A block of a node, as a watch showed it. */
interface NodeBlock extends BlockEntry {
  readonly name: string;
  readonly owner: Extract<BlockOwner, { readonly kind: "Node" }>;
}

/** Reclaims the blocks of nodes that are gone, and remembers what it saw from pass to pass. */
export class BlockReclaimer {
  readonly #context: ControllerContext;
  readonly #sightings = new Sightings();

  constructor(context: ControllerContext) {
    this.#context = context;
  }

  /** Looks at every node that the watches show as gone. A failure means that the node's blocks are in use. */
  async pass(signal: AbortSignal): Promise<void> {
    const { view } = this.#context;
    const candidates = [...view.blocks.entries].flatMap(([name, block]): NodeBlock[] => {
      if (block?.owner.kind !== "Node") return [];
      const { owner } = block;
      const isGone = whyGone(view.nodes.entries.get(owner.name), owner.uid) !== undefined;
      return isGone ? [{ ...block, owner, name }] : [];
    });
    this.#sightings.keep(new Set(candidates.map(({ name }) => name)));
    const nodes = Map.groupBy(candidates, ({ owner }) => JSON.stringify([owner.name, owner.uid]));
    for (const blocks of nodes.values()) {
      try {
        await this.#visit(blocks, signal);
      } catch (error) {
        signal.throwIfAborted();
        for (const { name } of blocks) this.#sightings.forget(name);
        const node = blocks[0]?.owner.name;
        this.#context.onFailure(
          { node },
          "a node that may be gone cannot be checked, its blocks stay",
          error,
        );
      }
    }
  }

  /** The blocks were read before their node and its pods: what happens in between changes their version. */
  async #visit(blocks: readonly NodeBlock[], signal: AbortSignal): Promise<void> {
    const [first] = blocks;
    if (first === undefined) return;
    const { api, clock, view } = this.#context;
    const seen = await lookAtNode(api, first.owner, signal);
    const nowMs = clock.monotonic();
    for (const block of blocks) {
      // A quarantined block rests for its pool's cooldown, and its node is gone at both ends of it.
      const gapMs = block.state === "Bound" ? LOOKS_MS : Math.max(LOOKS_MS, view.cooldownMs(block));
      const look = seen && { ...seen, version: `${block.uid}/${block.resourceVersion}` };
      if (!this.#sightings.note(block.name, look, gapMs, nowMs)) continue;
      this.#sightings.forget(block.name);
      await this.#reclaim(block, seen?.finding ?? "", signal);
    }
  }

  async #reclaim(block: NodeBlock, finding: string, signal: AbortSignal): Promise<void> {
    const { api, logger, counts, post } = this.#context;
    const { name, uid, resourceVersion, owner } = block;
    const fields = { block: name, node: owner.name, reason: finding };
    const object = await readNow(api, ADDRESS_BLOCKS, name, signal);
    // Another controller was faster, or its agent is alive: it is looked at from the start.
    if (object?.metadata.uid !== uid || object.metadata.resourceVersion !== resourceVersion) return;
    try {
      if (block.state === "Quarantined") {
        await api.delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal);
        counts.blocksDeleted += 1;
        logger.info(fields, "a block of a node that is gone was deleted: other nodes can take its addresses");
        return;
      }
      await api.update(ADDRESS_BLOCKS, changedBlock(object, { state: "Quarantined" }), signal);
    } catch (error) {
      if (isOvertaken(error)) return;
      throw error;
    }
    counts.blocksQuarantined += 1;
    logger.warn(fields, "a block is quarantined because its node is gone");
    const note = `Node ${owner.name} is gone: ${finding}. It has no pods with addresses. Other nodes can use the block's addresses after the pool's cooldown`;
    const regarding = { kind: "AddressBlock", name, uid } as const;
    post({ regarding, reason: "AddressBlockQuarantined", action: "Quarantine", note });
  }
}
