import { createHash, randomUUID } from "node:crypto";
import { type AddressPool, parseAddressPool } from "../address-objects/address-pool.ts";
import { type AddressSpace, parseAddressSpace } from "../address-objects/address-space.ts";
import { parseAddress, parsePrefix } from "../addresses/address.ts";
import { describeThrown, Failure } from "../failure/failure.ts";
import { Journal, type JournalOptions } from "../journal/journal.ts";
import type { JournalContent } from "../journal/read-journal.ts";
import type { KubeObject } from "../kube-api/client.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { HeldBlock } from "./held-block.ts";
import {
  type Allocation,
  type BlockEntry,
  ENTRY_VERSION,
  type Entry,
  entryKey,
  formerKeyOf,
  type Identity,
  parseEntry,
  withoutCounts,
} from "./journal-entries.ts";

/** A journal of the agent's entries: {@link Journal}, or what a test has in its place. */
export interface OpenedJournal {
  readonly journal: Pick<Journal<Entry>, "append">;
  readonly content: JournalContent<Entry>;
}

/** Opens the journal; {@link Journal.open} where the agent runs. */
export type OpenJournal = (options: JournalOptions<Entry>) => Promise<OpenedJournal>;

/** Where the state is kept. */
export interface NodeStateOptions {
  readonly directory: string;
  /** The boot that the node runs in. */
  readonly bootId: string;
  readonly openJournal?: OpenJournal | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What is known of shared addresses that an interface does not use. */
export interface UnusedShared {
  readonly wereUsed: boolean;
  /** Since when, or since when this agent knows of it, in milliseconds of the monotonic clock. */
  readonly sinceMs: number;
}

/** What an interface of a pod had by a claim. */
export interface FormerAllocation {
  readonly allocation: Allocation;
  /** When it was released, or when this agent was started, in milliseconds of the monotonic clock. */
  readonly sinceMs: number;
}

/**
 * What this node's agent knows: its blocks, their allocations, and pools and spaces as last seen. A change is on disk
 * before it is visible here, but for one: an address that is about to be handed out is held in memory first.
 */
export class NodeState {
  readonly blocks = new Map<string, HeldBlock>();
  /** By {@link entryKey.allocation}. */
  readonly allocations = new Map<string, Allocation>();
  /** By {@link entryKey.allocation}: interfaces that may have shared addresses and use none. */
  readonly unusedShared = new Map<string, UnusedShared>();
  /** By {@link entryKey.former}: what interfaces without a sandbox had by a claim. */
  readonly former = new Map<string, FormerAllocation>();
  readonly pools = new Map<string, AddressPool>();
  readonly spaces = new Map<string, AddressSpace>();
  readonly bootId: string;
  readonly #journal: OpenedJournal["journal"];
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Pools and spaces as the journal has them, without their status. */
  readonly #objects = new Map<string, string>();
  #identity: Identity;

  private constructor(options: NodeStateOptions, journal: OpenedJournal["journal"], identity: Identity) {
    this.bootId = options.bootId;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#journal = journal;
    this.#identity = identity;
  }

  /**
   * Reads the state, making it where there is none. A journal with damaged entries may lack an allocation: it gets a new
   * id, and its blocks are treated like those of a journal that was lost, unless the node was rebooted since, which ended
   * all sandboxes.
   * @throws Failure `record-unreadable` for a journal of a newer release, `record-unwritable`
   */
  static async open(options: NodeStateOptions): Promise<NodeState> {
    const { directory, logger, openJournal = Journal.open<Entry> } = options;
    const format = { version: ENTRY_VERSION, parse: parseEntry };
    const { journal, content } = await openJournal({ directory, durable: true, logger, ...format });
    for (const { file, reason } of content.damaged)
      logger.error({ file, reason }, "a damaged entry is set aside");
    const known = [...content.values.values()].find((entry) => entry.kind === "identity");
    const damaged = digestOf(content.damaged.map(({ text }) => text));
    const isDamaged = content.damaged.length > 0 && known?.damaged !== damaged;
    const isIncomplete = isDamaged && (known === undefined || known.bootId === options.bootId);
    const fresh: Identity = { kind: "identity", journal: randomUUID(), nodeUid: known?.nodeUid, damaged };
    const identity: Identity =
      known === undefined || isIncomplete ? fresh : { ...known, ...(isDamaged ? { damaged } : {}) };
    const state = new NodeState(options, journal, identity);
    await state.#load(content.values, isIncomplete);
    if (identity !== known) await state.setIdentity({});
    return state;
  }

  get identity(): Identity {
    return this.#identity;
  }

  /** Whether the API server has confirmed our blocks since the node was booted. */
  get isConfirmed(): boolean {
    return this.#identity.bootId === this.bootId;
  }

  /** On disk when it resolves. @throws Failure `record-unwritable` */
  async setIdentity(change: Partial<Identity>): Promise<void> {
    const identity = { ...this.#identity, ...change };
    await this.#journal.append(entryKey.identity, identity);
    this.#identity = identity;
  }

  /** Adds a block, or changes what is known of one. @throws Failure `record-unwritable` */
  async putBlock(name: string, entry: BlockEntry): Promise<HeldBlock> {
    await this.#journal.append(entryKey.block(name), entry);
    return this.#setBlock(name, entry);
  }

  /** @throws Failure `record-unwritable` */
  async forgetBlock(block: HeldBlock): Promise<void> {
    const released = [...block.released].map((address) => entryKey.released(block.name, address));
    await Promise.all(
      [...released, entryKey.block(block.name)].map((key) => this.#journal.append(key, undefined)),
    );
    this.blocks.delete(block.name);
  }

  /** Records an allocation whose addresses are held already. @throws Failure `record-unwritable` */
  async putAllocation(allocation: Allocation): Promise<void> {
    const key = entryKey.allocation(allocation);
    const former = formerKeyOf(allocation);
    await this.#journal.append(key, allocation);
    this.allocations.set(key, allocation);
    // What stays on disk is known to be out of date beside an allocation.
    if (former !== undefined) await this.forgetFormer(former).catch(() => undefined);
    if (this.unusedShared.has(key)) await this.forgetUnused(key).catch(() => undefined);
    this.unusedShared.delete(key);
  }

  /** Records that an interface may have shared addresses that it does not use. @throws Failure `record-unwritable` */
  async putUnused(key: string, wereUsed: boolean): Promise<void> {
    await this.#journal.append(entryKey.unused(key), { kind: "unused", wereUsed });
    this.unusedShared.set(key, { wereUsed, sinceMs: this.#clock.monotonic() });
  }

  /** @throws Failure `record-unwritable` */
  async forgetUnused(key: string): Promise<void> {
    await this.#journal.append(entryKey.unused(key), undefined);
    this.unusedShared.delete(key);
  }

  /** @throws Failure `record-unwritable` */
  async forgetFormer(key: string): Promise<void> {
    if (!this.former.has(key)) return;
    await this.#journal.append(key, undefined);
    this.former.delete(key);
  }

  /** Removes an allocation, whose addresses rest from now on. @throws Failure `record-unwritable` */
  async release(key: string): Promise<void> {
    const allocation = this.allocations.get(key);
    const former = allocation && formerKeyOf(allocation);
    if (allocation !== undefined && former !== undefined) {
      await this.#journal.append(former, { kind: "former", allocation });
      this.former.set(former, { allocation, sinceMs: this.#clock.monotonic() });
    }
    if (allocation?.addresses.some(({ shared }) => shared !== undefined)) await this.putUnused(key, true);
    const addresses = [...this.#addressesOf(allocation)];
    const marks = addresses.map(({ block, value }) =>
      this.#journal.append(entryKey.released(block.name, value), { kind: "released" }),
    );
    await Promise.all([...marks, this.#journal.append(key, undefined)]);
    for (const { block, value } of addresses) block.release(value, this.#clock.monotonic());
    this.allocations.delete(key);
  }

  /** A pool or space as the API server has it; undefined for one that is gone. A disk that refuses costs nothing now. */
  async putObject(kind: "pool" | "space", name: string, object: KubeObject | undefined): Promise<void> {
    const isValid = object === undefined ? this.#dropObject(kind, name) : this.#setObject(kind, object);
    const key = entryKey[kind](name);
    const kept = object === undefined || !isValid ? undefined : withoutCounts(object);
    const text = kept && textOf(kept);
    if (this.#objects.get(key) === text) return;
    try {
      await this.#journal.append(key, kept === undefined ? undefined : { kind, object: kept });
      if (text === undefined) this.#objects.delete(key);
      else this.#objects.set(key, text);
    } catch (error) {
      this.#logger.warn(
        { reason: describeThrown(error) },
        `an address ${kind} cannot be kept for the next start`,
      );
    }
  }

  async #load(entries: ReadonlyMap<string, Entry>, isIncomplete: boolean): Promise<void> {
    for (const [key, entry] of entries) {
      if (entry.kind === "block") {
        const name = key.slice(entryKey.block("").length);
        if (isIncomplete && entry.state === "bound") await this.putBlock(name, { ...entry, state: "lost" });
        else this.#setBlock(name, entry);
      }
      if (entry.kind === "pool" || entry.kind === "space") {
        if (this.#setObject(entry.kind, entry.object)) this.#objects.set(key, textOf(entry.object));
      }
    }
    const now = this.#clock.monotonic();
    for (const [key, entry] of entries) {
      if (entry.kind === "released") {
        const [, name = "", address = ""] = key.split("/");
        this.blocks.get(name)?.release(BigInt(address), now);
      }
    }
    for (const [key, entry] of entries) {
      if (entry.kind !== "allocation") continue;
      // Every request of this boot started later.
      const allocation = entry.bootId === this.bootId ? entry : { ...entry, startedAtMs: 0 };
      this.allocations.set(key, allocation);
      for (const { block, value } of this.#addressesOf(allocation)) block.hold(value, key);
    }
    for (const [key, entry] of entries)
      if (entry.kind === "former") this.former.set(key, { allocation: entry.allocation, sinceMs: now });
    for (const [unused, entry] of entries) {
      const key = unused.replace("unused/", "allocation/");
      if (entry.kind === "unused" && !this.allocations.has(key))
        this.unusedShared.set(key, { wereUsed: entry.wereUsed, sinceMs: now });
    }
  }

  #setBlock(name: string, entry: BlockEntry): HeldBlock {
    const known = this.blocks.get(name);
    if (known !== undefined) {
      if (entry.isReused && !known.entry.isReused) known.rest(this.#clock.monotonic());
      known.entry = entry;
      return known;
    }
    const prefix = parsePrefix(entry.cidr);
    if (prefix === undefined) throw unreadable(`block ${name} has the network ${entry.cidr}`);
    const block = new HeldBlock(name, prefix, entry, this.#clock.monotonic());
    this.blocks.set(name, block);
    return block;
  }

  *#addressesOf(allocation: Allocation | undefined) {
    for (const { block: name, address } of allocation?.addresses ?? []) {
      const block = this.blocks.get(name);
      const value = parseAddress(address.split("/")[0] ?? "")?.value;
      if (block !== undefined && value !== undefined) yield { block, value };
    }
  }

  #setObject(kind: "pool" | "space", object: KubeObject): boolean {
    try {
      if (kind === "pool") this.pools.set(object.metadata.name, parseAddressPool(object));
      else this.spaces.set(object.metadata.name, parseAddressSpace(object));
      return true;
    } catch (error) {
      this.#logger.error({ reason: describeThrown(error) }, `an address ${kind} cannot be used`);
      this.#dropObject(kind, object.metadata.name);
      return false;
    }
  }

  #dropObject(kind: "pool" | "space", name: string): boolean {
    return kind === "pool" ? this.pools.delete(name) : this.spaces.delete(name);
  }
}

function textOf({ spec, status }: KubeObject): string {
  return JSON.stringify([spec, status]);
}

function digestOf(texts: readonly string[]): string | undefined {
  if (texts.length === 0) return undefined;
  return createHash("sha256").update(texts.toSorted().join("\n")).digest("hex");
}

function unreadable(what: string): Failure {
  return new Failure({ code: "record-unreadable", what, where: "the IPAM agent's journal" });
}
