import { newBlock, parseAddressBlock } from "../address-objects/address-block.ts";
import { ADDRESS_BLOCKS, blockName, selectorOf } from "../address-objects/resources.ts";
import { ADDRESS_BITS, type Prefix, parsePrefix } from "../addresses/address.ts";
import { type BlockPrefixes, blockAt, blocksInOrder, blocksOf, numberOfBlock } from "../addresses/grid.ts";
import { type Range, RangeSet } from "../addresses/range-set.ts";
import { describeThrown, Failure } from "../failure/failure.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import { orAborted } from "../sync/deadlines.ts";
import { type AddressSource, blockPrefixesOf, blocksOfSource, countsOfSource } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import type { HeldBlock } from "./held-block.ts";
import { blockLock, type OwnBlocks, unlessMissing } from "./own-blocks.ts";

/** So many blocks that are another's are tried before the space's blocks are listed. */
const TRIES = 8;
/** How long a pool counts as exhausted before its blocks are listed again. */
const EXHAUSTED_MS = 10_000;
const MINUTE_MS = 60_000;
/** Before a caller tries again where the API server did not answer. */
const RETRY_MS = 1_000;

interface Exhausted {
  readonly usable: RangeSet;
  readonly untilMs: number;
  readonly failure: Failure;
}

/** Takes blocks for the node when a source's addresses run out, and before. */
export class BlockSupply {
  readonly #context: AgentContext;
  readonly #own: OwnBlocks;
  /** By {@link AddressSource.key}. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #exhausted = new Map<string, Exhausted>();
  readonly #takenAtMs = new Map<string, number[]>();
  #signal: AbortSignal = AbortSignal.abort();

  constructor(context: AgentContext, own: OwnBlocks) {
    this.#context = context;
    this.#own = own;
  }

  /** Takes blocks until the signal fires. */
  run(signal: AbortSignal): void {
    this.#signal = signal;
  }

  /**
   * Takes one block for a source; callers that come meanwhile share it. An API server that does not answer is asked again
   * until the signal fires.
   * @param signal ends this caller's wait, not the taking
   * @throws Failure `pool-exhausted`, `pool-missing`, `record-unwritable`; ApiFailure; the signal's reason
   */
  async take(source: AddressSource, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#context;
    for (let last: ApiFailure | undefined; ; ) {
      try {
        return await this.#takeOnce(source, signal);
      } catch (error) {
        // Why nothing came until the deadline says more than that it is over.
        if (signal.aborted) throw last ?? error;
        if (!isTransient(error)) throw error;
        last = error;
      }
      const failure = last;
      const pauseMs = Math.max(RETRY_MS * (0.5 + random() / 2), failure.retryAfterMs);
      await clock.sleep(pauseMs, signal).catch(() => {
        throw failure;
      });
    }
  }

  async #takeOnce(source: AddressSource, signal: AbortSignal): Promise<void> {
    const known = this.problemOf(source);
    if (known !== undefined) throw known;
    const running = this.#running.get(source.key) ?? this.#start(source);
    await orAborted(running, signal);
  }

  /** Why no block could be taken for a source a moment ago; undefined where one may be there. */
  problemOf({ key, usable }: AddressSource): Failure | undefined {
    const known = this.#exhausted.get(key);
    const isCurrent = known?.usable === usable && known.untilMs > this.#context.clock.monotonic();
    return isCurrent ? known.failure : undefined;
  }

  /** To be called when an address was handed out: takes blocks in the background where few addresses are left. */
  noteTaken(source: AddressSource): void {
    const { clock, logger } = this.#context;
    const now = clock.monotonic();
    const recent = (this.#takenAtMs.get(source.key) ?? []).filter((atMs) => atMs > now - MINUTE_MS);
    this.#takenAtMs.set(source.key, [...recent, now]);
    if (this.#running.has(source.key) || !this.isLow(source)) return;
    this.#takeOnce(source, this.#signal).then(
      () => undefined,
      (error: unknown) =>
        logger.debug({ reason: describeThrown(error) }, "no block could be taken in advance"),
    );
  }

  /**
   * Whether a source has fewer free addresses on this node than a quarter of a block or, up to a whole block, than were
   * handed out in the last minute.
   * @param except as if this block were given back
   */
  isLow(source: AddressSource, except?: HeldBlock): boolean {
    const { clock, state } = this.#context;
    const now = clock.monotonic();
    const recent = (this.#takenAtMs.get(source.key) ?? []).filter((atMs) => atMs > now - MINUTE_MS).length;
    const prefixes = state.spaces.get(source.space)?.blockPrefixes;
    const size = prefixes === undefined ? 0 : 2 ** (ADDRESS_BITS[source.family] - prefixes[source.family]);
    return countsOfSource(source, state, now, except).free < Math.max(size / 4, Math.min(recent, size));
  }

  /**
   * Takes the one block that has a network's addresses.
   * @returns false where it is another's @throws ApiFailure, Failure `record-unwritable`
   */
  takeExactly(source: AddressSource, prefix: Prefix, signal: AbortSignal): Promise<boolean> {
    return this.#own.readNodeUid(signal).then((uid) => this.#create(source, prefix, uid, signal));
  }

  #start(source: AddressSource): Promise<void> {
    const running = this.#takeOne(source, this.#signal)
      .catch((failure: unknown) => {
        if (failure instanceof Failure && failure.code === "pool-exhausted") {
          const untilMs = this.#context.clock.monotonic() + EXHAUSTED_MS;
          this.#exhausted.set(source.key, { usable: source.usable, untilMs, failure });
        }
        throw failure;
      })
      .finally(() => this.#running.delete(source.key));
    this.#running.set(source.key, running);
    // Those who wait for it see the failure.
    running.catch(() => undefined);
    return running;
  }

  /** Tries the source's blocks in the node's own order; when many are taken, those that a list of the space lacks. */
  async #takeOne(source: AddressSource, signal: AbortSignal): Promise<void> {
    const { api, node, state, random } = this.#context;
    const uid = await this.#own.readNodeUid(signal);
    const prefixes = blockPrefixesOf(source, state);
    const all = blocksOf(source.usable, source.family, prefixes);
    if (await this.#tryInOrder(all, source, prefixes, uid, signal)) return;
    const { objects } = await api.list(
      ADDRESS_BLOCKS,
      { labelSelector: selectorOf({ space: source.space }) },
      signal,
    );
    const taken = objects.flatMap(({ spec }) => numberRange(spec, source, prefixes));
    const free = all.minus(RangeSet.of(taken));
    for (let left = free; left.size > 0n; ) {
      // Nodes that list at the same time choose differently, and each may lose some of the race.
      if (await this.#tryInOrder(left, source, prefixes, uid, signal)) return;
      if (left.size <= BigInt(TRIES)) break;
      const tried: Range[] = [];
      for (const one of blocksInOrder(left, node, random))
        if (tried.push({ first: one, last: one }) === TRIES) break;
      left = left.minus(RangeSet.of(tried));
    }
    throw exhausted(source, all, this.#context);
  }

  async #tryInOrder(
    blocks: RangeSet,
    source: AddressSource,
    prefixes: BlockPrefixes,
    uid: string,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { node, state, random } = this.#context;
    let tries = 0;
    for (const number of blocksInOrder(blocks, node, random)) {
      const prefix = blockAt(number, source.family, prefixes);
      if (state.blocks.has(blockName(source.space, prefix))) continue;
      if (await this.#create(source, prefix, uid, signal)) return true;
      if (++tries === TRIES) return false;
    }
    return false;
  }

  /** Creates a block, which fails where it has an owner. */
  #create(source: AddressSource, prefix: Prefix, uid: string, signal: AbortSignal): Promise<boolean> {
    const { api, node, state, locks, logger } = this.#context;
    const { space, pool } = source;
    const name = blockName(space, prefix);
    return locks.run(blockLock(name, "the taking", signal), async () => {
      // Meanwhile adopted, after a create whose answer was lost.
      if (state.blocks.has(name)) return state.blocks.get(name)?.isUsable === true;
      const owner = { kind: "Node", name: node, uid, journal: state.identity.journal } as const;
      const wanted = newBlock({ space, prefix, owner, state: "Bound", pool });
      const object = await api.create(ADDRESS_BLOCKS, wanted, signal).catch((error: unknown) => {
        if (!(error instanceof ApiFailure) || error.problem !== "exists") throw error;
        // Perhaps our own, of a create whose answer was lost.
        return api.get(ADDRESS_BLOCKS, name, signal).catch(unlessMissing);
      });
      const block = object && parseAddressBlock(object);
      if (block === undefined || this.#own.standingOf(block) !== "ours") return false;
      await this.#own.hold(block);
      logger.info({ block: name, pool }, "a block was taken");
      return true;
    });
  }
}

/** A token that is refused is not accepted a second later. */
function isTransient(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && (error.problem === "unreachable" || error.problem === "unavailable");
}

/** The number of a listed block of the source's space, where it is of its family. */
function numberRange(spec: unknown, { family }: AddressSource, prefixes: BlockPrefixes): readonly Range[] {
  const { cidr } = (spec ?? {}) as { readonly cidr?: unknown };
  const prefix = typeof cidr === "string" ? parsePrefix(cidr) : undefined;
  if (prefix?.family !== family || prefix.length !== prefixes[family]) return [];
  const number = numberOfBlock(prefix);
  return [{ first: number, last: number }];
}

function exhausted(source: AddressSource, blocks: RangeSet, context: AgentContext): Failure {
  const { state, clock, node } = context;
  const { used, resting, free } = countsOfSource(source, state, clock.monotonic());
  const own = blocksOfSource(source, state).filter(({ isUsable, prefix }) => {
    return isUsable && blocks.has(numberOfBlock(prefix));
  }).length;
  const name = source.pool === undefined ? `the ranges in space ${source.space}` : `pool ${source.pool}`;
  if (source.usable.size === 0n)
    return new Failure({
      code: "pool-exhausted",
      what: `${name} has no address that can be handed out now`,
      where: `node ${node}`,
      fix:
        source.pool === undefined
          ? "correct its ranges"
          : `kubectl describe addresspool ${source.pool} shows why`,
    });
  return new Failure({
    code: "pool-exhausted",
    what:
      `${name}: all ${blocks.size} blocks with its ${source.usable.size} addresses are taken, ${own} of them by this node, ` +
      `where ${used} addresses are in use, ${resting} rest after their release and ${free} are free`,
    where: `node ${node}`,
    fix: "add a subnet or a range to the pool, or delete pods; nodes give back blocks that they do not use",
  });
}
