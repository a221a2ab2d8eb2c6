// A claim gets an address of each pool of its network: allocation first, then the status, whose version decides.
import type { AddressAllocation } from "../../address-objects/address-allocation.ts";
import { type AddressPool, subnetOfAddress } from "../../address-objects/address-pool.ts";
import { claimKey } from "../../claims/claim-name.ts";
import {
  type ClaimAddress,
  type ClaimCondition,
  claimCondition,
  type IpamClaim,
  parseIpamClaim,
  writeClaimStatus,
} from "../../claims/ipam-claim.ts";
import { IPAM_CLAIMS, inNamespace } from "../../claims/resources.ts";
import { Failure } from "../../failure/failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { allocateShared } from "../../pool-addresses/allocate-shared.ts";
import { releaseShared } from "../../pool-addresses/release-shared.ts";
import { isOvertaken } from "../controller-context.ts";
import { freeAddresses } from "../free-addresses.ts";
import { readNow } from "../look.ts";
import { adoptAddress } from "./adopt-address.ts";
import { ClaimRefused, type ClaimsContext, type UsablePool } from "./claims-context.ts";
import { partsOf, sameAddress } from "./claims-view.ts";

/**
 * Brings one claim to its addresses, or secures those that it has. Repeated after an interruption at any step it goes on where it
 * was: the claim's uid finds its allocations.
 * @throws Failure after the claim's condition says what is wrong: to be tried again
 */
export async function publishClaim(context: ClaimsContext, key: string, signal: AbortSignal): Promise<void> {
  const { api, claims, counts, logger } = context;
  const { namespace, name } = partsOf(key);
  const read = await readNow(api, inNamespace(IPAM_CLAIMS, namespace), name, signal);
  if (read === undefined) return;
  const claim = parseIpamClaim(read);
  const network = claims.networkOf(claim);
  // Another IPAM's.
  if (network === undefined) return;
  try {
    if (!("pools" in network)) {
      // Its addresses stay, if it has any.
      if (claim.ips.length > 0) return;
      throw new ClaimRefused(network.reason, network.problem);
    }
    const pools = usablePools(context, network.pools);
    if (claim.ips.length > 0) {
      for (const address of claim.ips) await adoptAddress(context, claim, address, pools, signal);
      if (allocationCondition(claim)?.status === "False") await succeed(context, read, claim.ips, signal);
      return;
    }
    // Nothing new for one that is going.
    if (claim.isDeleting) return;
    const allocations = await allocate(context, claim, pools, signal);
    const ips = allocations.map((allocation, index) => publishedOf(allocation, pools[index]?.pool));
    try {
      await succeed(context, read, ips, signal);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      await settle(context, key, claim, allocations, signal);
      return;
    }
    counts.claimsPublished += 1;
    logger.info({ claim: key, network: claim.network }, "a claim has its addresses");
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    await refuse(context, read, refusal, signal);
    throw error;
  }
}

async function allocate(
  { api, view, random }: ClaimsContext,
  { namespace, name, uid, network }: IpamClaim,
  pools: readonly UsablePool[],
  signal: AbortSignal,
): Promise<readonly AddressAllocation[]> {
  const owner = { kind: "IPAMClaim", namespace, name, uid, network };
  const allocations: AddressAllocation[] = [];
  const isNew = !view.claimUids.has(uid);
  for (const { pool, space } of pools) {
    const key = claimKey(pool, owner);
    // One that is kept for the key comes first.
    const hints = isNew && key === undefined ? freeAddresses(pool, view, random) : [];
    allocations.push(await allocateShared({ api, pool, space, owner, key, hints, random, signal }));
  }
  return allocations;
}

/** @throws ClaimRefused where one of them is missing: then none is used */
function usablePools({ view }: ClaimsContext, names: readonly string[]): readonly UsablePool[] {
  return names.map((name) => {
    const pool = view.pools.entries.get(name)?.pool;
    if (pool === undefined) throw new ClaimRefused("PoolMissing", `there is no AddressPool ${name}`);
    if (typeof pool === "string") throw new ClaimRefused("PoolMissing", pool);
    const space = view.spaces.entries.get(pool.space);
    if (space === undefined)
      throw new ClaimRefused("PoolMissing", `AddressPool ${name} needs AddressSpace ${pool.space}`);
    return { pool, space };
  });
}

function publishedOf({ address }: AddressAllocation, pool: AddressPool | undefined): ClaimAddress {
  const subnet = pool && subnetOfAddress(pool, address);
  // A subnet that has just left the pool.
  if (subnet === undefined)
    throw new ClaimRefused("IPAddressConflict", "its pool does not have its address any more");
  return { ...address, length: subnet.prefix.length };
}

function succeed(
  { api, clock }: ClaimsContext,
  read: KubeObject,
  ips: readonly ClaimAddress[],
  signal: AbortSignal,
): Promise<KubeObject> {
  const message = "the addresses are the claim's until it is deleted";
  const condition = claimCondition("SuccessfulAllocation", message, clock.now());
  return writeClaimStatus(api, read, { ips, condition }, signal);
}

/** The claim was changed meanwhile: what another writer did not publish is given back. One that is gone is looked at twice. */
async function settle(
  { api }: ClaimsContext,
  key: string,
  { uid }: IpamClaim,
  allocations: readonly AddressAllocation[],
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name } = partsOf(key);
  const now = await readNow(api, inNamespace(IPAM_CLAIMS, namespace), name, signal);
  if (now === undefined || now.metadata.uid !== uid) return;
  const { ips } = parseIpamClaim(now);
  if (ips.length === 0)
    throw new Failure({
      code: "kube-api-unavailable",
      what: "the claim was changed by another writer",
      where: key,
    });
  for (const allocation of allocations) {
    if (!ips.some((one) => sameAddress(one, allocation.address)))
      await releaseShared(api, allocation, signal);
  }
}

function refusalOf(error: unknown): ClaimRefused | undefined {
  if (error instanceof ClaimRefused) return error;
  if (!(error instanceof Failure)) return undefined;
  if (error.code === "pool-exhausted") return new ClaimRefused("SubnetExhausted", error.what);
  if (error.code === "address-refused") return new ClaimRefused("IPAddressConflict", error.what);
  return undefined;
}

/** Says so in the claim's condition, once, and in an event. */
async function refuse(
  { api, clock, counts, logger, post }: ClaimsContext,
  read: KubeObject,
  { reason, message }: ClaimRefused,
  signal: AbortSignal,
): Promise<void> {
  const claim = parseIpamClaim(read);
  const { namespace, name, uid, ips } = claim;
  const before = allocationCondition(claim);
  if (before?.status === "False" && before.reason === reason) return;
  const condition = claimCondition(reason, message, clock.now());
  try {
    await writeClaimStatus(api, read, { ips, condition }, signal);
  } catch (error) {
    if (isOvertaken(error)) return;
    throw error;
  }
  counts.claimsRefused += 1;
  logger.warn({ claim: `${namespace}/${name}`, reason: message }, "a claim gets no addresses");
  const regarding = { kind: "IPAMClaim", namespace, name, uid } as const;
  post({ regarding, reason: "IPAMClaimRefused", action: "Allocate", note: message });
}

function allocationCondition(claim: IpamClaim): Partial<ClaimCondition> | undefined {
  return (claim.conditions as readonly Partial<ClaimCondition>[]).find(({ type }) => type === "IPsAllocated");
}
