// An address that a claim has published already: after a restore, or from an IPAM that was there before.
import { changedAllocation, parseAddressAllocation } from "../../address-objects/address-allocation.ts";
import { newBlock } from "../../address-objects/address-block.ts";
import { subnetOfAddress } from "../../address-objects/address-pool.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  allocationName,
  blockName,
} from "../../address-objects/resources.ts";
import { type Address, formatAddress } from "../../addresses/address.ts";
import { blockOf } from "../../addresses/grid.ts";
import { claimKey } from "../../claims/claim-name.ts";
import type { IpamClaim } from "../../claims/ipam-claim.ts";
import { allocateShared } from "../../pool-addresses/allocate-shared.ts";
import { isOvertaken } from "../controller-context.ts";
import { readNow } from "../look.ts";
import { ClaimRefused, type ClaimsContext, type UsablePool } from "./claims-context.ts";

/**
 * Makes sure that a published address is allocated to its claim, and nothing else: exactly this address, or the claim is
 * refused and keeps it.
 * @throws ClaimRefused, Failure `address-refused`, ApiFailure
 */
export async function adoptAddress(
  context: ClaimsContext,
  { namespace, name, uid, network }: IpamClaim,
  { family, value }: Address,
  pools: readonly UsablePool[],
  signal: AbortSignal,
): Promise<void> {
  const { api, random } = context;
  const address = { family, value };
  const of = pools.find(({ pool }) => subnetOfAddress(pool, address) !== undefined);
  if (of === undefined)
    throw new ClaimRefused(
      "IPAddressConflict",
      `no pool of network ${network} hands out ${formatAddress(address)}, which the claim has`,
    );
  const { pool, space } = of;
  const owner = { kind: "IPAMClaim", namespace, name, uid, network };
  const object = await readNow(api, ADDRESS_ALLOCATIONS, allocationName(space.name, address), signal);
  const found = object && parseAddressAllocation(object);
  if (found?.owner?.kind === "IPAMClaim" && found.owner.uid === uid) return;
  const isOfEarlier =
    found?.owner?.kind === "IPAMClaim" && found.owner.namespace === namespace && found.owner.name === name;
  if (object !== undefined && isOfEarlier) {
    // Its former claim is gone, because this one has the name. What uses the address uses it for the same interface.
    await api.update(ADDRESS_ALLOCATIONS, changedAllocation(object, { node: undefined, owner }), signal);
    return;
  }
  if (found === undefined) await ensureBlock(context, of, address, signal);
  const key = claimKey(pool, owner);
  await allocateShared({ api, pool, space, owner, key, requested: address, random, signal });
}

/** Blocks are made ahead, though not necessarily the one of this address. One that a node has stays the node's. */
async function ensureBlock(
  { api, counts }: ClaimsContext,
  { pool, space }: UsablePool,
  address: Address,
  signal: AbortSignal,
): Promise<void> {
  const prefix = blockOf(address, space.blockPrefixes);
  if ((await readNow(api, ADDRESS_BLOCKS, blockName(space.name, prefix), signal)) !== undefined) return;
  const owner = { kind: "Shared" } as const;
  try {
    const block = newBlock({ space: space.name, prefix, owner, state: "Bound", pool: pool.name });
    await api.create(ADDRESS_BLOCKS, block, signal);
    counts.blocksShared += 1;
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}
