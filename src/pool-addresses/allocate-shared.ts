// Addresses of blocks that belong to no node: creating an address' AddressAllocation takes it.
import {
  type AddressAllocation,
  type AllocationOwner,
  changedAllocation,
  newAllocation,
  ownerHash,
  parseAddressAllocation,
} from "../address-objects/address-allocation.ts";
import { parseAddressBlock } from "../address-objects/address-block.ts";
import type { AddressPool } from "../address-objects/address-pool.ts";
import type { AddressSpace } from "../address-objects/address-space.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  allocationName,
  blockHash,
  blockName,
  keyHash,
  selectorOf,
} from "../address-objects/resources.ts";
import { type Address, formatAddress } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import { rangeOf } from "../addresses/subnet.ts";
import { Failure } from "../failure/failure.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Selection } from "../kube-api/client.ts";
import { releaseShared } from "./release-shared.ts";

/** What is to be allocated, and for whom. */
export interface SharedRequest {
  readonly api: Pick<KubeApi, "get" | "list" | "create" | "update" | "delete">;
  readonly pool: AddressPool;
  readonly space: AddressSpace;
  readonly owner: AllocationOwner;
  /** Of a pod: its node. */
  readonly node?: string | undefined;
  /** What a sticky address is kept for; a claim's names its namespace and name, by which an earlier claim's is found. */
  readonly key?: string | undefined;
  readonly requested?: Address | undefined;
  /**
   * Addresses that watches show as free, of shared blocks of the pool, for a claim that has none as they show it: tried before
   * anything is listed. What watches show may be old: creating the allocation decides here, too.
   */
  readonly hints?: readonly Address[] | undefined;
  /** Whether an address without an allocation must not be taken, unless it is requested; default none. */
  readonly isReserved?: (address: Address) => boolean;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/** A race that is lost so often has another reason. */
const ROUNDS = 5;
/** Blocks whose allocations are listed one by one; after them all of the space are. */
const SINGLE_BLOCKS = 8;

/**
 * Takes an address of the pool's shared blocks: `requested` exactly, else the one that is kept for `key`, else a free one. An
 * owner that has an address of the pool gets the same again, so that a caller that was interrupted only has to repeat; callers
 * at the same time for one owner get the same one, too, and none of them may release it because another one used it first. An
 * IPAMClaim may have several until it publishes one of them; the others are freed after that.
 * @throws Failure `pool-exhausted`: no shared block has a free address now, or the block is being given back; `address-refused`
 *   for a requested one; `pool-missing` for a pool that is being deleted; ApiFailure
 */
export async function allocateShared(request: SharedRequest): Promise<AddressAllocation> {
  const hinted = await takeHint(request);
  if (hinted !== undefined) return hinted;
  const { requested, pool } = request;
  for (let round = 0; round < ROUNDS; round++) {
    const settled = await settle(request);
    if (settled === undefined) {
      await takeOne(request);
      continue;
    }
    if (requested !== undefined && requested.value !== settled.address.value)
      throw refused(requested, `${formatAddress(settled.address)} of pool ${pool.name} is allocated to it`);
    return settled;
  }
  throw exhausted(request, "others took each address that was tried");
}

/** Without a list, for which the API server looks at all allocations, whatever label selects them. */
async function takeHint(request: SharedRequest): Promise<AddressAllocation | undefined> {
  const { pool, hints = [] } = request;
  if (pool.isDeleting) return undefined;
  for (const address of hints) {
    const made = await create(request, address);
    if (made !== undefined) return (await stateOfBlock(request, address)) === "Shared" ? made : undefined;
  }
  return undefined;
}

/**
 * The oldest allocation of the owner that is in a shared block; others are deleted, except an IPAMClaim's, which another program
 * may be publishing. Every caller comes here after its create, and so finds the same one. An allocation was never in use where
 * its block is gone, because a block is deleted only after a look that finds none in it, and the block is read here after the
 * allocation.
 */
async function settle(request: SharedRequest): Promise<AddressAllocation | undefined> {
  const { api, pool, owner, signal } = request;
  const labels = { space: pool.space, ownerHash: ownerHash(owner) };
  const found = await listAllocations(request, { labelSelector: selectorOf(labels) });
  const own = found
    .filter((one) => one.pool === pool.name && !one.isDeleting && one.owner !== undefined)
    .sort((one, other) => orderOf(one) - orderOf(other));
  let kept: AddressAllocation | undefined;
  for (const allocation of own) {
    if (kept !== undefined && owner.kind === "IPAMClaim") break;
    const state = kept === undefined ? await stateOfBlock(request, allocation.address) : "a younger one";
    if (state === "Shared") kept = allocation;
    else if (state === "Releasing")
      throw exhausted(request, `the block of ${formatAddress(allocation.address)} is being given back`);
    else await releaseShared(api, allocation, signal);
  }
  return kept;
}

/** Versions are numbers that grow with every write (KEP-5504), and an allocation is written when it gets its owner. */
function orderOf({ resourceVersion }: AddressAllocation): number {
  return Number(resourceVersion);
}

/** Takes one address, which {@link settle} finds then. */
async function takeOne(request: SharedRequest): Promise<void> {
  const { requested, key, pool } = request;
  if (pool.isDeleting) throw deleting(pool);
  if (requested !== undefined) return takeRequested(request, requested);
  const sticky = key === undefined ? [] : await allocationsOfKey(request, key);
  const waiting = sticky.find((one) => isWaitingFor(request.owner, one.owner));
  if (waiting !== undefined) return takeOver(request, waiting);
  // While another has the address of the key, this one is not kept.
  return takeFree(sticky.length > 0 ? { ...request, key: undefined } : request);
}

async function takeRequested(request: SharedRequest, address: Address): Promise<void> {
  const { api, pool, space, key, signal } = request;
  if (address.family !== pool.family || !pool.usable.has(address.value))
    throw refused(address, `pool ${pool.name} does not hand it out`);
  const block = blockName(space.name, blockOf(address, space.blockPrefixes));
  if ((await stateOfBlock(request, address)) !== "Shared")
    throw refused(address, `its block ${block} is not shared`);
  if (await create(request, address)) return;
  const object = await api.get(ADDRESS_ALLOCATIONS, allocationName(space.name, address), signal);
  const found = parseAddressAllocation(object);
  const isOurs = isWaitingFor(request.owner, found.owner) && found.key === key && found.pool === pool.name;
  if (isOurs) return takeOver(request, found);
  const { kind, namespace, name } = found.owner ?? {};
  throw refused(
    address,
    found.owner === undefined ? "it is kept for another key" : `${kind} ${namespace}/${name} has it`,
  );
}

async function allocationsOfKey(request: SharedRequest, key: string): Promise<readonly AddressAllocation[]> {
  const { pool } = request;
  const labelSelector = selectorOf({ space: pool.space, key: keyHash(key) });
  return (await listAllocations(request, { labelSelector })).filter(
    (one) =>
      one.key === key && one.pool === pool.name && !one.isDeleting && pool.usable.has(one.address.value),
  );
}

/** Whether nothing has a sticky address, or a claim that is gone, because the owner is a later one of its name. */
function isWaitingFor(owner: AllocationOwner, current: AllocationOwner | undefined): boolean {
  if (current === undefined) return true;
  const isLater = current.uid !== owner.uid && current.kind === "IPAMClaim" && owner.kind === current.kind;
  return isLater && current.namespace === owner.namespace && current.name === owner.name;
}

/** Gives an address that waits for its key an owner. Where another is faster, the next round finds what it left. */
async function takeOver(
  { api, node, owner, signal }: SharedRequest,
  { name }: AddressAllocation,
): Promise<void> {
  try {
    const object = await api.get(ADDRESS_ALLOCATIONS, name, signal);
    if (!isWaitingFor(owner, parseAddressAllocation(object).owner)) return;
    await api.update(ADDRESS_ALLOCATIONS, changedAllocation(object, { node, owner }), signal);
  } catch (error) {
    if (!isProblem(error, "conflict", "not-found")) throw error;
  }
}

/** The blocks, and the addresses of a block, are tried from a random one on, so that two callers seldom meet. */
async function takeFree(request: SharedRequest): Promise<void> {
  const { api, pool, isReserved = () => false, random, signal } = request;
  const { space, family, usable } = pool;
  const labelSelector = selectorOf({ space, owner: "Shared" });
  const { objects } = await api.list(ADDRESS_BLOCKS, { labelSelector }, signal);
  const blocks = objects
    .map(parseAddressBlock)
    .filter(({ state, isDeleting, prefix }) => state === "Bound" && !isDeleting && prefix.family === family)
    .map(({ name, prefix }) => ({ name, values: usable.clip(rangeOf(prefix)) }))
    .filter(({ values }) => values.size > 0n);
  let all: ReadonlySet<string> | undefined;
  for (const [index, { name, values }] of rotated(blocks, random).entries()) {
    if (index === SINGLE_BLOCKS) all = await takenNames(request, selectorOf({ space }));
    const taken = all ?? (await takenNames(request, selectorOf({ space, block: blockHash(name) })));
    for (const value of rotated([...values.values()], random)) {
      const address = { family, value };
      if (taken.has(allocationName(space, address)) || isReserved(address)) continue;
      if (await create(request, address)) return;
    }
  }
  throw exhausted(request, `its ${blocks.length} shared blocks have no free address`);
}

/** Names of allocations, without the rest of them. */
async function takenNames(
  { api, signal }: SharedRequest,
  labelSelector: string,
): Promise<ReadonlySet<string>> {
  const { objects } = await api.list(
    { ...ADDRESS_ALLOCATIONS, isMetadataOnly: true },
    { labelSelector },
    signal,
    ({ metadata: { name } }) => ({ metadata: { name } }),
  );
  return new Set(objects.map(({ metadata: { name } }) => name));
}

/** @returns undefined where the address is taken */
async function create(request: SharedRequest, address: Address): Promise<AddressAllocation | undefined> {
  const { api, pool, space, owner, node, key, signal } = request;
  const block = blockName(space.name, blockOf(address, space.blockPrefixes));
  const wanted = newAllocation({ space: space.name, pool: pool.name, address, node, owner, key }, block);
  try {
    return parseAddressAllocation(await api.create(ADDRESS_ALLOCATIONS, wanted, signal));
  } catch (error) {
    if (isProblem(error, "exists")) return undefined;
    throw error;
  }
}

/** What the block of an address is now, at the API server. */
async function stateOfBlock(
  { api, space, signal }: SharedRequest,
  address: Address,
): Promise<"Shared" | "Releasing" | "gone"> {
  const name = blockName(space.name, blockOf(address, space.blockPrefixes));
  let object: KubeObject;
  try {
    object = await api.get(ADDRESS_BLOCKS, name, signal);
  } catch (error) {
    if (isProblem(error, "not-found")) return "gone";
    throw error;
  }
  const { owner, state, isDeleting } = parseAddressBlock(object);
  if (owner.kind !== "Shared") return "gone";
  return state === "Bound" && !isDeleting ? "Shared" : "Releasing";
}

async function listAllocations(
  { api, signal }: SharedRequest,
  selection: Selection,
): Promise<readonly AddressAllocation[]> {
  const { objects } = await api.list(ADDRESS_ALLOCATIONS, selection, signal);
  return objects.map(parseAddressAllocation);
}

/** The same from a random one on. @param random from 0 up to 1 */
export function rotated<Value>(values: readonly Value[], random: () => number): readonly Value[] {
  const start = Math.floor(random() * values.length);
  return [...values.slice(start), ...values.slice(0, start)];
}

function isProblem(error: unknown, ...problems: readonly ApiFailure["problem"][]): boolean {
  return error instanceof ApiFailure && problems.includes(error.problem);
}

function exhausted({ pool }: SharedRequest, why: string): Failure {
  return new Failure({
    code: "pool-exhausted",
    what: `no address of pool ${pool.name} can be allocated now: ${why}`,
    where: `AddressPool ${pool.name}`,
    fix: "it is tried again, and the controller makes shared blocks while the pool has free addresses; otherwise make the pool larger",
  });
}

function deleting({ name }: AddressPool): Failure {
  return new Failure({
    code: "pool-missing",
    what: `pool ${name} is being deleted`,
    where: `AddressPool ${name}`,
    fix: "name another pool in the network",
  });
}

function refused(address: Address, why: string): Failure {
  return new Failure({
    code: "address-refused",
    what: `the requested address ${formatAddress(address)} cannot be given: ${why}`,
    where: "the request for an address",
    fix: "request another one, or none; it is tried again",
  });
}
