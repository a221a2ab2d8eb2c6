// A claim gets its address: finalizer, allocation, IPAddress, status. Each step can be repeated, and is looked for before.
import type { AddressAllocation, AllocationOwner } from "../../address-objects/address-allocation.ts";
import { type AddressPool, type Subnet, subnetOfAddress } from "../../address-objects/address-pool.ts";
import { ADDRESS_ALLOCATIONS, statusOf } from "../../address-objects/resources.ts";
import { formatAddress, isInPrefix } from "../../addresses/address.ts";
import { Failure } from "../../failure/failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { present } from "../../names/present.ts";
import { allocateShared } from "../../pool-addresses/allocate-shared.ts";
import { releaseShared } from "../../pool-addresses/release-shared.ts";
import { readNow } from "../look.ts";
import { planClaimStatus, type Readiness } from "./claim-status.ts";
import {
  CLUSTER_LABEL,
  type ClaimEntry,
  ipAddressOf,
  PROTECT_FINALIZER,
  RELEASE_FINALIZER,
  withFinalizers,
} from "./objects.ts";
import { type PoolOfClaim, type ProviderContext, poolOwnerReference } from "./provider-context.ts";
import { allocationsOf, dropIpAddress } from "./release-claim.ts";

/** Whose an address is that a claim has. */
export function ownerOfClaim({ namespace, name, uid }: ClaimEntry): AllocationOwner {
  return { kind: "IPAddressClaim", namespace, name, uid, network: "" };
}

/**
 * Brings a claim that is not deleted to its address. An IPAddress of its name that exists is taken over, with its address: one
 * that was restored, or moved here from another cluster.
 * @param object the claim as it was just read
 * @throws ApiFailure `conflict` and others where another writer was faster: to be repeated
 */
export async function fulfilClaim(
  context: ProviderContext,
  object: KubeObject,
  claim: ClaimEntry,
  pool: PoolOfClaim,
  signal: AbortSignal,
): Promise<void> {
  const { api, resources } = context;
  const claims = { ...resources.claims, namespace: claim.namespace };
  const addresses = { ...resources.addresses, namespace: claim.namespace };
  const held = claim.finalizers.includes(RELEASE_FINALIZER)
    ? object
    : await api.update(claims, withFinalizers(object, [...claim.finalizers, RELEASE_FINALIZER]), signal);
  const say = (readiness: Readiness) => writeStatus(context, held, claim, readiness, signal);

  const existing = await readNow(api, addresses, claim.name, signal);
  const published = existing && ipAddressOf(existing);
  if (existing !== undefined && (published === undefined || published.claimName !== claim.name))
    return say(failed(`IPAddress ${claim.name} exists, and is not of this claim: delete it`));
  if (published?.isDeleting && published.claimUid !== undefined && published.claimUid !== claim.uid)
    return dropIpAddress(context, published, signal);

  if (typeof pool.source === "string" || pool.object === undefined) {
    // What the claim has stays.
    if (claim.isReady && published !== undefined) return;
    return say({ isReady: false, reason: "PoolNotReady", message: String(pool.source) });
  }
  const { source } = pool;
  const requested = published?.address;
  const taken = await allocate(context, claim, { ...source, requested }, signal);
  if ("isReady" in taken) return say(taken);
  const subnet = subnetOf(source.pool, taken);
  if (subnet === undefined)
    return say(
      failed(`${formatAddress(taken.address)} is in no subnet of pool ${source.pool.name} any more`),
    );

  const wanted = ipAddressFor(context, { claim: held, entry: claim, pool: pool.object, subnet, taken });
  if (existing === undefined) {
    const made = await api.create(addresses, wanted, signal);
    if (!(await isStillValid(context, claim, taken, signal))) {
      const entry = ipAddressOf(made);
      if (entry !== undefined) await dropIpAddress(context, entry, signal);
      return;
    }
    const fields = {
      claim: `${claim.namespace}/${claim.name}`,
      pool: source.pool.name,
      allocation: taken.name,
    };
    context.logger.info(fields, "a claim has got its address");
  } else await adopt(context, existing, wanted, signal);
  return say({ isReady: true, address: formatAddress(taken.address) });
}

/** An allocation, or the reason for not having one. Other failures are thrown. */
async function allocate(
  context: ProviderContext,
  claim: ClaimEntry,
  {
    pool,
    space,
    requested,
  }: Exclude<PoolOfClaim["source"], string> & {
    readonly requested: AddressAllocation["address"] | undefined;
  },
  signal: AbortSignal,
): Promise<AddressAllocation | Readiness> {
  const { api, random, isPublished } = context;
  const owner = ownerOfClaim(claim);
  const isReserved = (address: AddressAllocation["address"]) => isPublished(space.name, address);
  try {
    return await allocateShared({ api, pool, space, owner, requested, isReserved, random, signal });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const message = error.message;
    if (error.code === "pool-exhausted") return { isReady: false, reason: "PoolExhausted", message };
    if (error.code !== "address-refused" || requested === undefined) throw error;
    // Another leader may have published while this one had allocated: what is not published goes.
    for (const own of await allocationsOf(context, owner, pool.space, signal))
      if (own.address.value !== requested.value) await releaseShared(api, own, signal);
    return failed(message);
  }
}

/** The subnet that an address has, also one that is not handed out any more. */
function subnetOf(pool: AddressPool, { address }: AddressAllocation): Subnet | undefined {
  return subnetOfAddress(pool, address) ?? pool.subnets.find(({ prefix }) => isInPrefix(prefix, address));
}

function ipAddressFor(
  { resources }: ProviderContext,
  {
    claim,
    entry,
    pool,
    subnet,
    taken,
  }: {
    readonly claim: KubeObject;
    readonly entry: ClaimEntry;
    readonly pool: KubeObject;
    readonly subnet: Subnet;
    readonly taken: AddressAllocation;
  },
): KubeObject {
  const { namespace, name, uid, pool: poolRef } = entry;
  const { apiVersion } = resources;
  const cluster = ((claim.metadata["labels"] ?? {}) as Readonly<Record<string, string>>)[CLUSTER_LABEL];
  const labels = cluster === undefined ? {} : { labels: { [CLUSTER_LABEL]: cluster } };
  const owner = { apiVersion, kind: "IPAddressClaim", name, uid, controller: true, blockOwnerDeletion: true };
  const { prefix, gateway } = subnet;
  return {
    ...{ apiVersion, kind: "IPAddress" },
    metadata: {
      ...{ namespace, name, ...labels },
      finalizers: [PROTECT_FINALIZER],
      ownerReferences: [owner, poolOwnerReference(poolRef, pool)],
    },
    spec: present({
      claimRef: { name },
      poolRef,
      address: formatAddress(taken.address),
      prefix: prefix.length,
      gateway: gateway && formatAddress(gateway),
    }),
  };
}

type Owner = Readonly<Record<"apiVersion" | "kind" | "name" | "uid", string>> & {
  readonly controller?: boolean;
};

/** Gives an IPAddress the owners, the finalizer and the label that it lacks. Its spec never changes. */
async function adopt(
  { api, resources }: ProviderContext,
  existing: KubeObject,
  { metadata: wanted }: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { metadata } = existing;
  const before = (metadata["ownerReferences"] ?? []) as readonly Owner[];
  const own = wanted["ownerReferences"] as readonly Owner[];
  const group = ({ apiVersion }: Owner) => apiVersion.replace(/\/.*/, "");
  const isSame = (one: Owner, other: Owner) =>
    group(one) === group(other) && one.kind === other.kind && one.name === other.name;
  const others = before.filter((one) => !own.some((other) => isSame(one, other)));
  const isOwned = own.every((one) => before.some((other) => isSame(one, other) && one.uid === other.uid));
  const finalizers = (metadata["finalizers"] ?? []) as readonly string[];
  const labels = { ...(metadata["labels"] as object), ...(wanted["labels"] as object) };
  const isLabelled = Object.keys(labels).length === Object.keys(metadata["labels"] ?? {}).length;
  // An object that is being deleted takes no new finalizer.
  const isHeld = finalizers.includes(PROTECT_FINALIZER) || metadata["deletionTimestamp"] !== undefined;
  if (isOwned && isHeld && isLabelled) return;
  const changed = {
    ...metadata,
    labels,
    finalizers: isHeld ? finalizers : [...finalizers, PROTECT_FINALIZER],
    ownerReferences: [...others, ...own],
  };
  const { namespace } = metadata as { readonly namespace?: string };
  const resource = { ...resources.addresses, ...(namespace === undefined ? {} : { namespace }) };
  await api.update(resource, { ...existing, metadata: changed }, signal);
}

/**
 * Whether the claim still waits for this address. The other leader may have released both while this one was paused between
 * its allocation and its IPAddress.
 */
async function isStillValid(
  { api, resources }: ProviderContext,
  { namespace, name, uid }: ClaimEntry,
  taken: AddressAllocation,
  signal: AbortSignal,
): Promise<boolean> {
  const claim = await readNow(api, { ...resources.claims, namespace }, name, signal);
  const allocation = await readNow(api, ADDRESS_ALLOCATIONS, taken.name, signal);
  return claim?.metadata.uid === uid && allocation?.metadata.uid === taken.uid;
}

async function writeStatus(
  { api, resources, clock }: ProviderContext,
  held: KubeObject,
  { namespace }: ClaimEntry,
  readiness: Readiness,
  signal: AbortSignal,
): Promise<void> {
  const now = new Date(clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
  const status = planClaimStatus(held, resources.version, readiness, now);
  if (JSON.stringify(status) === JSON.stringify(held["status"])) return;
  await api.update({ ...statusOf(resources.claims), namespace }, { ...held, status }, signal);
}

function failed(message: string): Readiness {
  return { isReady: false, reason: "AllocationFailed", message };
}
