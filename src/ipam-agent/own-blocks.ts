import { type AddressBlock, changedBlock, parseAddressBlock } from "../address-objects/address-block.ts";
import { ADDRESS_BLOCKS, nodeHash, selectorOf } from "../address-objects/resources.ts";
import { formatPrefix } from "../addresses/address.ts";
import { describeThrown } from "../failure/failure.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeObject, Resource } from "../kube-api/client.ts";
import { watchResource } from "../kube-api/watch.ts";
import { present } from "../names/present.ts";
import type { LockRequest } from "../sync/keyed-mutex.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import type { AgentContext } from "./agent-context.ts";
import type { BlockEntry } from "./journal-entries.ts";
import { listSurvivors } from "./pods-of-node.ts";

const NODES: Resource = { group: "", version: "v1", plural: "nodes", isMetadataOnly: true };

/** Whose a block is, as the API server has it. */
type Standing =
  /** Ours to hand out from. */
  | "ours"
  /** Of this node, but taken with a journal that was lost. */
  | "of a lost journal"
  /** Ours, but quarantined because this node counted as gone. */
  | "quarantined"
  /** Not there, another's, or of an earlier Node object of our name. */
  | "not ours";

/** The lock of what is done with one block. */
export function blockLock(name: string, what: string, signal?: AbortSignal): LockRequest {
  return { key: `block ${name}`, what: `${what} of block ${name}`, ...(signal && { signal }) };
}

/** The selector of this node's blocks. */
export function ownSelector({ node }: AgentContext): { readonly labelSelector: string } {
  return { labelSelector: selectorOf({ node: nodeHash(node) }) };
}

/**
 * Keeps what this node knows of its blocks in line with the API server. Lists and watches only say which block to look at:
 * every decision is made on a fresh read of that block, one at a time for each block.
 */
export class OwnBlocks {
  readonly #context: AgentContext;
  readonly #queue: WorkQueue;
  readonly #confirmation: SharedRead<void>;
  /** Blocks of a lost journal that were seen. */
  readonly #resting = new Set<string>();
  #signal: AbortSignal = AbortSignal.abort();

  constructor(context: AgentContext) {
    this.#context = context;
    this.#queue = new WorkQueue({
      work: (name, signal) => this.#look(name, signal),
      onFailure: (block, error) =>
        context.logger.warn(
          { block, reason: describeThrown(error) },
          "a block cannot be compared with the API server",
        ),
      clock: context.clock,
    });
    this.#confirmation = new SharedRead({ read: () => this.#confirmOnce(this.#signal) });
  }

  /** Follows the node's blocks until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    await Promise.all([this.#queue.run(signal), this.#follow(signal)]);
  }

  /**
   * Makes sure that the blocks are ours, once for each boot: while the node was off they may have been given to others.
   * @throws ApiFailure, Failure `record-unwritable`
   */
  async confirm(signal: AbortSignal): Promise<void> {
    if (!this.#context.state.isConfirmed) await this.#confirmation.get(signal);
  }

  /**
   * The UID of this node's Node object. Where that was created again, blocks of the earlier one are given up.
   * @throws ApiFailure, Failure `record-unwritable`
   */
  async readNodeUid(signal: AbortSignal): Promise<string> {
    const { api, node, state, logger } = this.#context;
    const { uid = "" } = (await api.get(NODES, node, signal)).metadata;
    const { nodeUid } = state.identity;
    if (uid === nodeUid) return uid;
    if (nodeUid !== undefined) {
      logger.error(
        { reason: `its UID was ${nodeUid} and is ${uid}` },
        "this node's Node object was created again",
      );
      for (const block of state.blocks.values()) block.isSuspended = true;
    }
    await state.setIdentity({ nodeUid: uid });
    for (const name of state.blocks.keys()) this.#queue.add(name);
    return uid;
  }

  /** Holds a block that was created, or found to be ours. @throws Failure `record-unwritable` */
  async hold(block: AddressBlock): Promise<void> {
    const { state } = this.#context;
    const { name, space, prefix, pool } = block;
    const known = state.blocks.get(name)?.entry;
    if (known?.state === "bound") return;
    const entry: BlockEntry = { kind: "block", space, cidr: formatPrefix(prefix), pool, state: "bound" };
    await state.putBlock(name, present({ ...entry, isReused: known?.isReused }));
  }

  /** Whose a block is. */
  standingOf({ owner, state: blockState, isDeleting }: AddressBlock): Standing {
    const { node, state } = this.#context;
    const { nodeUid, journal } = state.identity;
    if (owner.kind !== "Node" || owner.name !== node || owner.uid !== nodeUid) return "not ours";
    if (isDeleting) return "not ours";
    if (owner.journal !== journal) return "of a lost journal";
    return blockState === "Bound" ? "ours" : "quarantined";
  }

  /** Has a block compared with the API server. */
  lookAt(name: string): void {
    this.#queue.add(name);
  }

  /** Looks at the blocks of a lost journal again: their pods are gone. */
  takeOverResting(): void {
    for (const name of this.#resting) this.#queue.add(name);
  }

  async #confirmOnce(signal: AbortSignal): Promise<void> {
    const { api, state, logger } = this.#context;
    if (state.isConfirmed) return;
    await this.readNodeUid(signal);
    const { objects } = await api.list(ADDRESS_BLOCKS, ownSelector(this.#context), signal);
    const standings = objects.map(
      (object) => [object.metadata.name, this.#standingOfObject(object)] as const,
    );
    if (state.identity.survivors === undefined) {
      const isLost = standings.some(([, standing]) => standing === "of a lost journal");
      // Where they cannot be listed now, the blocks rest until a later pass has done it.
      const survivors = isLost ? await listSurvivors(this.#context, signal).catch(() => undefined) : [];
      if (survivors !== undefined) await state.setIdentity({ survivors });
    }
    const found = standings.flatMap(([name, standing]) => (standing === "not ours" ? [] : [name]));
    for (const name of new Set([...found, ...state.blocks.keys()])) await this.#compare(name, signal);
    await state.setIdentity({ bootId: state.bootId });
    logger.info({ blocks: state.blocks.size }, "the API server has confirmed this node's blocks");
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { api, state, random, clock, logger } = this.#context;
    const onFailure = (failure: ApiFailure) =>
      logger.warn({ reason: failure.message }, "the watch of address blocks was interrupted");
    const selection = ownSelector(this.#context);
    for await (const change of watchResource(
      { api, resource: ADDRESS_BLOCKS, selection, random, clock, onFailure },
      signal,
    )) {
      if (change.kind !== "all") {
        const standing = change.kind === "removed" ? "not ours" : this.#standingOfObject(change.object);
        this.#hint(change.object.metadata.name, standing);
        continue;
      }
      const listed = new Map(change.objects.map((object) => [object.metadata.name, object]));
      for (const [name, object] of listed) this.#hint(name, this.#standingOfObject(object));
      for (const name of state.blocks.keys()) if (!listed.has(name)) this.#hint(name, "not ours");
    }
  }

  /** Something that may be old: it stops handing out at once, and all else waits for a fresh read. */
  #hint(name: string, standing: Standing): void {
    const block = this.#context.state.blocks.get(name);
    if (block?.entry.state === "bound" && standing !== "ours") block.isSuspended = true;
    if (block?.isUsable || (block === undefined && standing === "not ours")) return;
    this.#queue.add(name);
  }

  async #look(name: string, signal: AbortSignal): Promise<void> {
    const { state, locks } = this.#context;
    // Where it is just being taken, that says what it is.
    await locks.whenIdle(blockLock(name, "").key);
    if (!state.blocks.get(name)?.isUsable) await this.#compare(name, signal);
  }

  /** Brings what is known of one block in line with a fresh read of it. */
  #compare(name: string, signal: AbortSignal): Promise<void> {
    const { api, state, locks } = this.#context;
    return locks.run(blockLock(name, "a comparison", signal), async () => {
      const object = await api.get(ADDRESS_BLOCKS, name, signal).catch(unlessMissing);
      const found = object && this.#parse(object);
      const standing = found === undefined ? "not ours" : this.standingOf(found);
      const block = state.blocks.get(name);
      if (block?.entry.state === "releasing") {
        // Never used again, whatever was read: a delete may still be on its way.
        if (standing === "ours" && found !== undefined) await this.#delete(found, signal);
        return state.forgetBlock(block);
      }
      if (standing === "ours" && found !== undefined) {
        await this.hold(found);
        const held = state.blocks.get(name);
        if (held !== undefined) held.isSuspended = false;
        this.#resting.delete(name);
        return;
      }
      // Not while pods have its addresses: this node counted as gone.
      if (standing === "quarantined" && object !== undefined && (block?.used ?? 0) === 0)
        return this.#takeBack(object, signal);
      if (block !== undefined) await this.#lose(name, block.entry, block.used, whyLost(found));
      if (standing === "of a lost journal" && object !== undefined) await this.#takeOver(object, signal);
    });
  }

  /** A block that is not ours any more: it is kept as long as pods have addresses of it. */
  async #lose(name: string, entry: BlockEntry, used: number, reason: string): Promise<void> {
    const { state, logger } = this.#context;
    const block = state.blocks.get(name);
    if (block === undefined) return;
    if (entry.state !== "lost") {
      logger.error(
        { block: name, reason, addresses: used },
        "a block is lost, nothing more is handed out of it",
      );
      await state.putBlock(name, { ...entry, state: "lost" });
    }
    if (used === 0) await state.forgetBlock(block);
  }

  /** A block of a journal that was lost: it is not known which pods have its addresses, so it rests until they are gone. */
  async #takeOver(object: KubeObject, signal: AbortSignal): Promise<void> {
    const { state, logger } = this.#context;
    const { name } = object.metadata;
    const { survivors } = state.identity;
    if (survivors === undefined || survivors.length > 0) {
      const reason = "the journal was lost, and pods that are on this node may have addresses of the block";
      if (!this.#resting.has(name))
        logger.warn({ block: name, reason }, "a block rests until those pods are gone");
      this.#resting.add(name);
      return;
    }
    await this.#takeBack(object, signal);
    this.#resting.delete(name);
  }

  /**
   * A block of this node: ours from here on. The controller, which may have quarantined it while
   * the node was off, deletes no other version than that.
   */
  async #takeBack(object: KubeObject, signal: AbortSignal): Promise<void> {
    const { api, state, logger } = this.#context;
    const { owner, name, space, prefix, pool } = parseAddressBlock(object);
    if (owner.kind !== "Node") return;
    // Of one that this journal has, it is known which addresses rest.
    const isReused = owner.journal !== state.identity.journal || !state.blocks.has(name) || undefined;
    const change = { owner: { ...owner, journal: state.identity.journal }, state: "Bound" } as const;
    // First on disk, so that it rests also where the answer is lost and the next look finds the block to be ours.
    const entry = present({ kind: "block" as const, space, cidr: formatPrefix(prefix), pool, isReused });
    if (isReused) await state.putBlock(name, { ...entry, state: "lost" });
    await api.update(ADDRESS_BLOCKS, changedBlock(object, change), signal);
    const block = await state.putBlock(name, { ...state.blocks.get(name)?.entry, ...entry, state: "bound" });
    block.isSuspended = false;
    logger.warn({ block: name }, "a block that was quarantined, or of a lost journal, is used again");
  }

  async #delete({ name, uid, resourceVersion }: AddressBlock, signal: AbortSignal): Promise<void> {
    const { api, logger } = this.#context;
    await api.delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal).catch(unlessMissing);
    logger.info({ block: name }, "a block was given back");
  }

  #standingOfObject(object: KubeObject): Standing {
    const block = this.#parse(object);
    return block === undefined ? "not ours" : this.standingOf(block);
  }

  #parse(object: KubeObject): AddressBlock | undefined {
    try {
      return parseAddressBlock(object);
    } catch (error) {
      this.#context.logger.error({ reason: describeThrown(error) }, "an address block cannot be read");
      return undefined;
    }
  }
}

/** For what may be gone already. @throws every other failure */
export function unlessMissing(error: unknown): undefined {
  if (error instanceof ApiFailure && error.problem === "not-found") return undefined;
  throw error;
}

function whyLost(found: AddressBlock | undefined): string {
  if (found === undefined) return "it does not exist any more";
  const { owner, state } = found;
  if (state === "Quarantined") return "it is quarantined, because this node was taken for gone";
  return `its owner is ${owner.kind === "Node" ? `node ${owner.name} (UID ${owner.uid}, journal ${owner.journal})` : owner.kind}`;
}
