import { type AddressBlock, parseAddressBlock } from "../address-objects/address-block.ts";
import { type AddressPool, parseAddressPool } from "../address-objects/address-pool.ts";
import { type AddressSpace, parseAddressSpace } from "../address-objects/address-space.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  ADDRESS_SPACES,
  blockName,
  NAMESPACED_ANNOTATION,
} from "../address-objects/resources.ts";
import { parseAddress } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import { rangeOf } from "../addresses/subnet.ts";
import { describeThrown } from "../failure/failure.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { type Guard, guardOf } from "./in-use-finalizer.ts";
import { NODES, type NodeEntry, nodeEntryOf, PODS, whyGone } from "./look.ts";
import { Mirror } from "./mirror.ts";

/** A pool as a watch shows it; its status as the API server has it. */
export interface PoolEntry {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number | undefined;
  readonly status: unknown;
  readonly guard: Guard;
  /** The pool, or why it cannot be used. */
  readonly pool: AddressPool | string;
  /** namespace/name of the NamespacedAddressPool that it stands for, if it does. */
  readonly namespacedPool: string | undefined;
}

/** A space as a watch shows it. */
export interface SpaceEntry extends AddressSpace {
  readonly guard: Guard;
}

/** A block as a watch shows it. */
export interface BlockEntry
  extends Pick<AddressBlock, "space" | "prefix" | "owner" | "state" | "pool" | "used" | "resourceVersion"> {
  readonly uid: string;
}

/** What is kept of an allocation. */
export interface AllocationEntry {
  /** Name of its block, or its space and address where the space is not known yet. */
  readonly block: string | { readonly space: string; readonly address: string };
  readonly pool: string;
  /** Of the pod that has it; undefined where it has no owner, or one of another kind. */
  readonly podUid: string | undefined;
  /** Of the IPAddressClaim of Cluster API that has it. */
  readonly claimUid: string | undefined;
  readonly node: string | undefined;
  /** Where it is a claim's. */
  readonly claim: ClaimAllocation | undefined;
}

/** What is kept of the allocation of a claim (IPAMClaim). */
export interface ClaimAllocation {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly address: string;
  /** Uid and resourceVersion of the allocation. */
  readonly version: string;
}

/**
 * The cluster as its watches show it, each object reduced so that 100,000 addresses fit into memory. All of it may be old:
 * it says where to look, not what is true.
 */
export class ClusterView {
  /** Changes with everything that pools' counts come from. */
  revision = 0;
  /** Changes with pools, spaces, and what nodes' pods get addresses of. */
  poolsRevision = 0;
  /** Allocations by the name of their block. */
  readonly allocationsIn = new Map<string, number>();
  /** Uids of the claims (IPAMClaim or IPAddressClaim) that have an allocation. */
  readonly claimUids = new Set<string>();
  readonly spaces = new Mirror<SpaceEntry | undefined>({
    resource: ADDRESS_SPACES,
    entryOf: (object) => unlessWrong(() => ({ ...parseAddressSpace(object), guard: guardOf(object) })),
    onChange: () => {
      this.#poolsChanged();
      this.#placeAllocations();
    },
  });
  readonly pools = new Mirror<PoolEntry>({
    resource: ADDRESS_POOLS,
    entryOf: poolEntryOf,
    onChange: (_, before, after) => {
      const isSame = before?.generation === after?.generation && before?.uid === after?.uid;
      // What is imported grows without a new generation.
      if (!isSame || sizeOf(before) !== sizeOf(after)) this.#poolsChanged();
      else this.revision += 1;
    },
  });
  /** Without blocks that cannot be read: they stay as they are. */
  readonly blocks = new Mirror<BlockEntry | undefined>({
    resource: ADDRESS_BLOCKS,
    entryOf: (object) => unlessWrong(() => blockEntryOf(object)),
    onChange: () => {
      this.revision += 1;
    },
  });
  readonly allocations = new Mirror<AllocationEntry>({
    resource: ADDRESS_ALLOCATIONS,
    entryOf: (object) => this.#allocationEntryOf(object),
    onChange: (_, before, after) => this.#allocationChanged(before, after),
  });
  readonly nodes = new Mirror<NodeEntry>({
    resource: NODES,
    entryOf: nodeEntryOf,
    onChange: (_, before, after) => {
      if (before?.podCidrs.join() !== after?.podCidrs.join()) this.#poolsChanged();
      if (before === undefined || whyGone(after, before.uid) === undefined) return;
      this.#nodeGone.resolve();
      this.#nodeGone = Promise.withResolvers();
    },
  });
  /** By uid. */
  readonly pods = new Mirror<true>({
    resource: { ...PODS, isMetadataOnly: true },
    keyOf: ({ metadata: { uid = "" } }) => uid,
    entryOf: () => true,
  });
  /** The same text for all allocations of a block, a pool or a node. */
  readonly #texts = new Map<string, string>();

  #nodeGone = Promise.withResolvers<void>();
  readonly #allocated = Promise.withResolvers<void>();

  /** Resolves when all that every pass needs was listed once. */
  async whenSynced(): Promise<void> {
    const { spaces, pools, blocks, allocations, nodes } = this;
    await Promise.all([spaces, pools, blocks, allocations, nodes].map((mirror) => mirror.whenSynced()));
  }

  /** Resolves when the next node is removed, replaced or tainted as out of service. */
  get nodeGone(): Promise<void> {
    return this.#nodeGone.promise;
  }

  /** Resolves when there is an allocation. */
  whenAllocated(): Promise<void> {
    return this.#allocated.promise;
  }

  /** How long a block of these addresses rests: the longest of its pools, in milliseconds. */
  cooldownMs({ space, prefix }: Pick<BlockEntry, "space" | "prefix">): number {
    const pools = [...this.pools.entries.values()].flatMap(({ pool }) =>
      typeof pool !== "string" && pool.space === space && pool.family === prefix.family ? [pool] : [],
    );
    const own = pools.filter(({ usable }) => usable.clip(rangeOf(prefix)).size > 0n);
    return Math.max(
      ...(own.length > 0 ? own : [{ cooldownSeconds: DEFAULT_COOLDOWN_SECONDS }]).map(
        ({ cooldownSeconds }) => cooldownSeconds * 1000,
      ),
    );
  }

  #poolsChanged(): void {
    this.revision += 1;
    this.poolsRevision += 1;
  }

  #allocationEntryOf({ metadata, spec }: KubeObject): AllocationEntry {
    const { space, address, pool, node, owner } = (spec ?? {}) as Readonly<Record<string, unknown>>;
    const { kind, uid, namespace, name } = (owner ?? {}) as Readonly<Record<string, unknown>>;
    return {
      block: this.#blockOf(String(space), String(address)),
      pool: this.#shared(String(pool)),
      podUid: kind === "Pod" && typeof uid === "string" ? uid : undefined,
      claimUid: kind === "IPAddressClaim" && typeof uid === "string" ? uid : undefined,
      node: typeof node === "string" ? this.#shared(node) : undefined,
      claim:
        kind === "IPAMClaim"
          ? {
              ...{ namespace: this.#shared(String(namespace)), name: String(name), uid: String(uid) },
              ...{ address: String(address), version: `${metadata.uid}/${metadata.resourceVersion}` },
            }
          : undefined,
    };
  }

  #blockOf(space: string, address: string): AllocationEntry["block"] {
    const lengths = this.spaces.entries.get(space)?.blockPrefixes;
    const parsed = parseAddress(address);
    if (lengths === undefined || parsed === undefined) return { space, address };
    return this.#shared(blockName(space, blockOf(parsed, lengths)));
  }

  /** Allocations may be seen before their space. */
  #placeAllocations(): void {
    const { entries } = this.allocations;
    for (const [name, before] of entries) {
      if (typeof before.block === "string") continue;
      const after = { ...before, block: this.#blockOf(before.block.space, before.block.address) };
      entries.set(name, after);
      this.#allocationChanged(before, after);
    }
  }

  #shared(text: string): string {
    const known = this.#texts.get(text);
    if (known === undefined) this.#texts.set(text, text);
    return known ?? text;
  }

  #allocationChanged(before: AllocationEntry | undefined, after: AllocationEntry | undefined): void {
    this.#allocated.resolve();
    const [former, now] = [before, after].map((entry) => entry?.claimUid ?? entry?.claim?.uid);
    if (former !== undefined) this.claimUids.delete(former);
    if (now !== undefined) this.claimUids.add(now);
    if (before?.block === after?.block) return;
    this.revision += 1;
    for (const [block, change] of [
      [before?.block, -1],
      [after?.block, 1],
    ] as const) {
      if (typeof block !== "string") continue;
      const count = (this.allocationsIn.get(block) ?? 0) + change;
      if (count === 0) this.allocationsIn.delete(block);
      else this.allocationsIn.set(block, count);
    }
  }
}

/** A pool's default. */
const DEFAULT_COOLDOWN_SECONDS = 60;

function poolEntryOf(object: KubeObject): PoolEntry {
  const { name, uid = "", resourceVersion = "", generation } = object.metadata;
  const annotations = (object.metadata["annotations"] ?? {}) as Readonly<Record<string, string>>;
  const common = {
    name,
    uid,
    resourceVersion,
    generation: typeof generation === "number" ? generation : undefined,
    namespacedPool: annotations[NAMESPACED_ANNOTATION],
    guard: guardOf(object),
  };
  try {
    return { ...common, status: object["status"], pool: parseAddressPool(object) };
  } catch (error) {
    return { ...common, status: object["status"], pool: describeThrown(error) };
  }
}

function sizeOf(entry: PoolEntry | undefined): bigint | undefined {
  return typeof entry?.pool === "object" ? entry.pool.usable.size : undefined;
}

function blockEntryOf(object: KubeObject): BlockEntry {
  const { uid, space, prefix, owner, state, pool, used, resourceVersion } = parseAddressBlock(object);
  return { uid, space, prefix, owner, state, pool, used, resourceVersion };
}

function unlessWrong<Value>(parse: () => Value): Value | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
