// Shared blocks that no pool needs: two looks find them empty, the state says it, a list finds them empty, deletion.
import { changedBlock, parseAddressBlock } from "../address-objects/address-block.ts";
import type { AddressPool } from "../address-objects/address-pool.ts";
import { ADDRESS_ALLOCATIONS, ADDRESS_BLOCKS } from "../address-objects/resources.ts";
import { isInPrefix, parseAddress } from "../addresses/address.ts";
import { rangeOf } from "../addresses/subnet.ts";
import type { KubeObject } from "../kube-api/client.ts";
import type { BlockEntry } from "./cluster-view.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";
import { readNow } from "./look.ts";
import { aheadOf } from "./shared-blocks.ts";
import { LOOKS_MS, Sightings } from "./sightings.ts";

/** How long the watches show a block as empty before it is given back; that of a pool that is gone sooner. */
const EMPTY_MS = 10 * 60_000;
/** Of one pass. */
const MAX_BLOCKS = 64;

/** A shared block, as a watch showed it. */
interface SpareBlock extends BlockEntry {
  readonly name: string;
  /** Whether a pool that hands out single addresses has some of it. */
  readonly hasPool: boolean;
}

/**
 * Gives back empty shared blocks that pools do not need ahead. A program that allocates an address reads the block after it
 * has created the allocation: where that is before the block is `Releasing`, the list below has the allocation, and otherwise the
 * program does not use it. So no address of a block that is deleted is in use.
 */
export class SharedBlockReturner {
  readonly #context: ControllerContext;
  readonly #waitingFor: (pool: AddressPool) => number | undefined;
  readonly #sightings = new Sightings();

  /** @param waitingFor how many claims wait for an address of a pool; undefined for one that needs no shared blocks */
  constructor(context: ControllerContext, waitingFor: (pool: AddressPool) => number | undefined) {
    this.#context = context;
    this.#waitingFor = waitingFor;
  }

  async pass(signal: AbortSignal): Promise<void> {
    const spare = this.#spareBlocks();
    this.#sightings.keep(new Set(spare.map(({ name }) => name)));
    const ripe = spare.filter((block) => this.#isRipe(block)).slice(0, MAX_BLOCKS);
    if (ripe.length === 0) return;
    try {
      await this.#giveBack(ripe, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#context.onFailure({}, "shared blocks that are not needed cannot be given back", error);
    }
  }

  /** Those of the highest addresses first, because the lowest ones are made first. */
  #spareBlocks(): readonly SpareBlock[] {
    const { view } = this.#context;
    const left = new Map(
      [...view.pools.entries.values()].flatMap(({ pool }) => {
        const waiting = typeof pool === "string" ? undefined : this.#waitingFor(pool);
        if (typeof pool === "string" || waiting === undefined) return [];
        const { free, wanted } = aheadOf(pool, view, waiting);
        return [[pool, free - wanted] as const];
      }),
    );
    const empty = [...view.blocks.entries]
      .flatMap(([name, block]) => (block?.owner.kind === "Shared" ? [{ ...block, name }] : []))
      .filter(({ name }) => !view.allocationsIn.has(name))
      .sort((one, other) => (one.prefix.value < other.prefix.value ? 1 : -1));
    return empty.flatMap((block) => {
      const sizes = [...left].flatMap(([pool, free]) => {
        const isOf = pool.space === block.space && pool.family === block.prefix.family;
        const size = isOf ? Number(pool.usable.clip(rangeOf(block.prefix)).size) : 0;
        return size === 0 ? [] : [{ pool, size, free }];
      });
      const found = { ...block, hasPool: sizes.length > 0 };
      if (block.state === "Releasing") return [found];
      if (sizes.some(({ size, free }) => free < size)) return [];
      for (const { pool, size, free } of sizes) left.set(pool, free - size);
      return [found];
    });
  }

  #isRipe({ name, uid, resourceVersion, state, hasPool }: SpareBlock): boolean {
    // Another controller, or this one before it was restarted, has begun.
    if (state === "Releasing") return true;
    const look = { finding: "it is empty", version: `${uid}/${resourceVersion}`, holders: [] };
    return this.#sightings.note(name, look, hasPool ? EMPTY_MS : LOOKS_MS, this.#context.clock.monotonic());
  }

  async #giveBack(blocks: readonly SpareBlock[], signal: AbortSignal): Promise<void> {
    const { api, logger } = this.#context;
    const releasing: KubeObject[] = [];
    for (const block of blocks) {
      const object = await this.#releasing(block, signal);
      if (object !== undefined) releasing.push(object);
    }
    // Only now, and without a selector: a label may be missing.
    const { objects } = await api.list(ADDRESS_ALLOCATIONS, {}, signal, ({ metadata: { name }, spec }) => {
      const { space, address } = (spec ?? {}) as { readonly space?: unknown; readonly address?: unknown };
      return { metadata: { name }, space, address };
    });
    for (const object of releasing) {
      const { name, uid, resourceVersion, space, prefix } = parseAddressBlock(object);
      const isUsed = objects.some(({ space: of, address }) => {
        const parsed = parseAddress(String(address));
        return of === space && (parsed === undefined || isInPrefix(prefix, parsed));
      });
      await (isUsed
        ? api.update(ADDRESS_BLOCKS, changedBlock(object, { state: "Bound" }), signal)
        : api.delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal)
      ).catch(unlessOvertaken);
      this.#sightings.forget(name);
      if (!isUsed) logger.info({ block: name }, "a shared block that is empty was given back");
    }
  }

  /** The block in state `Releasing`, from which on no address of it is taken; undefined where it has changed. */
  async #releasing(block: SpareBlock, signal: AbortSignal): Promise<KubeObject | undefined> {
    const { api } = this.#context;
    const object = await readNow(api, ADDRESS_BLOCKS, block.name, signal);
    if (object === undefined) return undefined;
    const { owner, state, uid, resourceVersion } = parseAddressBlock(object);
    if (owner.kind !== "Shared" || uid !== block.uid) return undefined;
    if (state === "Releasing") return object;
    if (resourceVersion !== block.resourceVersion) return undefined;
    try {
      return await api.update(ADDRESS_BLOCKS, changedBlock(object, { state: "Releasing" }), signal);
    } catch (error) {
      if (isOvertaken(error)) return undefined;
      throw error;
    }
  }
}

function unlessOvertaken(error: unknown): void {
  if (!isOvertaken(error)) throw error;
}
