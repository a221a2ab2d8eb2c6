// Blocks of kind Foreign: they have addresses that pods got from whereabouts, and no agent can take them.
import {
  type AddressBlock,
  blockStatusUpdate,
  newBlock,
  parseAddressBlock,
} from "../../address-objects/address-block.ts";
import { ADDRESS_BLOCKS, blockName, selectorOf, statusOf } from "../../address-objects/resources.ts";
import { isInPrefix, type Prefix, parseAddress } from "../../addresses/address.ts";
import { blockOf } from "../../addresses/grid.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { type ControllerContext, isOvertaken } from "../controller-context.ts";
import { PODS, readNow } from "../look.ts";
import { LOOKS_MS, Sightings } from "../sightings.ts";
import type { ImportingPool, KeptAddresses } from "./whereabouts-ranges.ts";

/** A pool, and what whereabouts has of it. */
export interface LookedAt extends KeptAddresses {
  readonly pool: ImportingPool;
  /** The pool's addresses that pods have from whereabouts. */
  readonly taken: ReadonlySet<bigint>;
}

interface Needed {
  readonly pool: ImportingPool;
  readonly prefix: Prefix;
  readonly addresses: Set<bigint>;
}

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** Takes blocks for whereabouts, and gives them back when two looks found none of its addresses in them. */
export class ForeignBlocks {
  readonly #context: ControllerContext;
  /** Of blocks that may be empty. */
  readonly #sightings = new Sightings();

  constructor(context: ControllerContext) {
    this.#context = context;
  }

  /** Name and network of the block that an address of the pool is in. */
  blockOf({ space, family }: ImportingPool, value: bigint): readonly [string, Prefix] {
    const lengths = this.#context.view.spaces.entries.get(space)?.blockPrefixes;
    if (lengths === undefined) throw new Error(`the watch shows no space ${space} any more`);
    const prefix = blockOf({ family, value }, lengths);
    return [blockName(space, prefix), prefix];
  }

  /**
   * Takes the blocks of addresses that pods have from whereabouts, and looks at those that have none.
   * @param startedMs when whereabouts' objects began to be read, by the monotonic clock
   * @returns names of blocks that have another owner
   */
  async pass(
    looked: readonly LookedAt[],
    startedMs: number,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const { api } = this.#context;
    const selection = { labelSelector: selectorOf({ owner: "Foreign" }) };
    const { objects } = await api.list(ADDRESS_BLOCKS, selection, signal);
    const blocks = new Map(objects.map((object) => [object.metadata.name, parseAddressBlock(object)]));
    const needed = this.#neededFor(looked);
    const refused = new Set<string>();
    for (const [name, need] of needed)
      if (!(await this.#hold(name, need, blocks.get(name), signal))) refused.add(name);
    const pools = new Map(looked.map(({ pool }) => [pool.name, pool.space]));
    const empty = [...blocks.values()].filter(
      ({ name, space, pool }) => !needed.has(name) && pool !== undefined && pools.get(pool) === space,
    );
    await this.#release(empty, startedMs, signal);
    return refused;
  }

  /** After a look that failed the next one is the first. */
  forget(): void {
    this.#sightings.keep(new Set());
  }

  /** Pools of one space may share a block. */
  #neededFor(looked: readonly LookedAt[]): ReadonlyMap<string, Needed> {
    const blocks = new Map<string, Needed>();
    for (const { pool, taken } of looked) {
      for (const value of taken) {
        const [name, prefix] = this.blockOf(pool, value);
        const block = blocks.get(name) ?? { pool, prefix, addresses: new Set() };
        block.addresses.add(value);
        blocks.set(name, block);
      }
    }
    return blocks;
  }

  /** @returns false where the block is a node's, or shared */
  async #hold(
    name: string,
    { pool, prefix, addresses }: Needed,
    known: AddressBlock | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    const block = known ?? (await this.#take(name, pool, prefix, signal));
    if (block !== undefined) await this.#report(block, addresses.size, signal);
    return block !== undefined;
  }

  /** @returns the block with how many addresses of it are used */
  async #report(block: AddressBlock, used: number, signal: AbortSignal): Promise<AddressBlock> {
    if (block.used === used) return block;
    const update = blockStatusUpdate(block, used);
    return parseAddressBlock(await this.#context.api.update(statusOf(ADDRESS_BLOCKS), update, signal));
  }

  async #take(
    name: string,
    { name: pool, space }: ImportingPool,
    prefix: Prefix,
    signal: AbortSignal,
  ): Promise<AddressBlock | undefined> {
    const { api, logger } = this.#context;
    const block = newBlock({ space, prefix, owner: { kind: "Foreign" }, state: "Bound", pool });
    try {
      const made = parseAddressBlock(await api.create(ADDRESS_BLOCKS, block, signal));
      logger.info({ block: name, pool }, "a block is left to whereabouts until its pods are gone");
      return made;
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
    const found = await readNow(api, ADDRESS_BLOCKS, name, signal);
    const parsed = found && parseAddressBlock(found);
    return parsed?.owner.kind === "Foreign" ? parsed : undefined;
  }

  /** A block rests for its pool's cooldown, and no pod may say that it has an address of it. */
  async #release(empty: readonly AddressBlock[], startedMs: number, signal: AbortSignal): Promise<void> {
    const { api, clock, view, logger } = this.#context;
    this.#sightings.keep(new Set(empty.map(({ name }) => name)));
    if (empty.length === 0) return;
    const holders = await this.#addressesOfPods(signal);
    const nowMs = clock.monotonic();
    for (const block of empty) {
      const { name, uid, resourceVersion, space, prefix } = await this.#report(block, 0, signal);
      const found = holders.filter(({ address }) => isInPrefix(prefix, address)).map((one) => one.uid);
      const look = { finding: "no address is left", version: `${uid}/${resourceVersion}`, holders: found };
      // From the end of one look to the beginning of the other.
      const gapMs = Math.max(LOOKS_MS, view.cooldownMs({ space, prefix })) + nowMs - startedMs;
      if (!this.#sightings.note(name, look, gapMs, nowMs)) continue;
      this.#sightings.forget(name);
      try {
        await api.delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal);
      } catch (error) {
        if (!isOvertaken(error)) throw error;
        continue;
      }
      logger.info({ block: name }, "a block that was left to whereabouts has no more pods and was deleted");
    }
  }

  /** Addresses of pods in the annotation `k8s.v1.cni.cncf.io/network-status`. */
  async #addressesOfPods(signal: AbortSignal) {
    const { objects } = await this.#context.api.list({ ...PODS, isMetadataOnly: true }, {}, signal);
    return objects.flatMap((pod) =>
      networkStatusIps(pod).flatMap((text) => {
        const address = parseAddress(text);
        return address === undefined ? [] : [{ address, uid: pod.metadata.uid ?? "" }];
      }),
    );
  }
}

/** None where the annotation cannot be read. */
function networkStatusIps({ metadata }: KubeObject): readonly string[] {
  const text = (metadata["annotations"] as Readonly<Record<string, string>> | undefined)?.[NETWORK_STATUS];
  if (text === undefined) return [];
  try {
    const networks = JSON.parse(text) as readonly { readonly ips?: readonly string[] }[];
    return networks.flatMap(({ ips }) => (Array.isArray(ips) ? ips.map(String) : []));
  } catch {
    return [];
  }
}
