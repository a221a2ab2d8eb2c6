// A deleted claim gives its address back: first its IPAddress goes, then the address rests, then others may have it.
import {
  type AddressAllocation,
  type AllocationOwner,
  ownerHash,
  parseAddressAllocation,
} from "../../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS, selectorOf } from "../../address-objects/resources.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { releaseShared } from "../../pool-addresses/release-shared.ts";
import { readNow } from "../look.ts";
import {
  type ClaimEntry,
  type IpAddressEntry,
  ipAddressOf,
  PROTECT_FINALIZER,
  RELEASE_FINALIZER,
  withFinalizers,
} from "./objects.ts";
import type { PoolOfClaim, ProviderContext } from "./provider-context.ts";

/** Those of the garbage collector: it waits for the IPAddress, and so for us. */
const COLLECTOR_FINALIZERS = ["foregroundDeletion", "orphan"];

/**
 * Releases the address of a deleted claim. While an infrastructure provider holds the claim with a finalizer of its own, the
 * machine may still use the address. An address whose pool has a cooldown stays allocated to the claim that is gone, until
 * that is over (`reclaim-claimed.ts`); one without, or without a pool, is free at once.
 * @throws ApiFailure: to be repeated
 */
export async function releaseClaim(
  context: ProviderContext,
  object: KubeObject,
  claim: ClaimEntry,
  pool: PoolOfClaim,
  owner: AllocationOwner,
  signal: AbortSignal,
): Promise<void> {
  const { api, resources, counts, logger } = context;
  if (!claim.finalizers.includes(RELEASE_FINALIZER)) return;
  const others = [RELEASE_FINALIZER, ...COLLECTOR_FINALIZERS];
  if (claim.finalizers.some((one) => !others.includes(one))) return;

  const addresses = { ...resources.addresses, namespace: claim.namespace };
  const existing = await readNow(api, addresses, claim.name, signal);
  const published = existing && ipAddressOf(existing);
  if (published !== undefined && published.claimName === claim.name) {
    await dropIpAddress(context, published, signal);
    const left = await readNow(api, addresses, claim.name, signal);
    // Another finalizer holds it: its end is seen by the watch.
    if (left?.metadata.uid === published.uid) return;
  }
  if (typeof pool.source === "string" || pool.source.pool.cooldownSeconds === 0)
    for (const allocation of await allocationsOf(context, owner, undefined, signal))
      if (await releaseShared(api, allocation, signal)) counts.allocationsFreed += 1;
  const finalizers = claim.finalizers.filter((one) => one !== RELEASE_FINALIZER);
  const claims = { ...resources.claims, namespace: claim.namespace };
  await api.update(claims, withFinalizers(object, finalizers), signal);
  logger.info({ claim: `${claim.namespace}/${claim.name}` }, "the address of a deleted claim was released");
}

/** Removes an IPAddress and our hold on it; one that is gone or has changed is left to the next look. */
export async function dropIpAddress(
  { api, resources }: Pick<ProviderContext, "api" | "resources">,
  { namespace, name, uid }: IpAddressEntry,
  signal: AbortSignal,
): Promise<void> {
  const addresses = { ...resources.addresses, namespace };
  const object = await readNow(api, addresses, name, signal);
  if (object?.metadata.uid !== uid) return;
  const finalizers = ((object.metadata["finalizers"] ?? []) as readonly string[]).filter(
    (one) => one !== PROTECT_FINALIZER,
  );
  await api.update(addresses, withFinalizers(object, finalizers), signal);
  const left = await readNow(api, addresses, name, signal);
  if (left?.metadata.uid !== uid || left.metadata["deletionTimestamp"] !== undefined) return;
  await api.delete(addresses, name, { uid }, signal);
}

/** Lets go of an IPAddress that was deleted and whose claim is gone: only we hold it. */
export async function endIpAddress(
  context: Pick<ProviderContext, "api" | "resources">,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  const { api, resources } = context;
  const object = await readNow(api, { ...resources.addresses, namespace }, name, signal);
  const address = object && ipAddressOf(object);
  if (!address?.isDeleting) return;
  const { claimName, claimUid } = address;
  const claim = await readNow(api, { ...resources.claims, namespace }, claimName, signal);
  const isOver = claim === undefined || (claimUid !== undefined && claim.metadata.uid !== claimUid);
  if (isOver) await dropIpAddress(context, address, signal);
}

/** All allocations of an owner, at the API server. */
export async function allocationsOf(
  { api }: Pick<ProviderContext, "api">,
  owner: AllocationOwner,
  space: string | undefined,
  signal: AbortSignal,
): Promise<readonly AddressAllocation[]> {
  const labels = { ownerHash: ownerHash(owner), ...(space === undefined ? {} : { space }) };
  const { objects } = await api.list(ADDRESS_ALLOCATIONS, { labelSelector: selectorOf(labels) }, signal);
  return objects.map(parseAddressAllocation).filter((one) => one.owner?.uid === owner.uid);
}
