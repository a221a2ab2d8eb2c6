import { type AddressPool, parseAddressPool } from "../../address-objects/address-pool.ts";
import { type AddressSpace, parseAddressSpace } from "../../address-objects/address-space.ts";
import {
  ADDRESS_POOLS,
  ADDRESS_SPACES,
  IPAM_API_VERSION,
  NAMESPACED_ANNOTATION,
  NAMESPACED_POOLS,
} from "../../address-objects/resources.ts";
import type { Address } from "../../addresses/address.ts";
import { describeThrown } from "../../failure/failure.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import type { ControllerContext } from "../controller-context.ts";
import { readNow } from "../look.ts";
import { addressPoolOf, type ClaimEntry, type ClusterApiResources, isPaused } from "./objects.ts";

/** What the provider's parts share. */
export interface ProviderContext extends ControllerContext {
  readonly resources: ClusterApiResources;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Whether an IPAddress of this space has the address although no allocation does, as after a restore. */
  readonly isPublished: (space: string, address: Address) => boolean;
}

/** The pool of a claim, as the API server has it now. */
export interface PoolOfClaim {
  /** The object that the claim names; undefined where it does not exist. */
  readonly object: KubeObject | undefined;
  readonly isPaused: boolean;
  /** What addresses are taken from, or why none can be. */
  readonly source: { readonly pool: AddressPool; readonly space: AddressSpace } | string;
}

/** @throws ApiFailure */
export async function readPool(
  { api }: Pick<ProviderContext, "api">,
  claim: Pick<ClaimEntry, "namespace" | "pool">,
  signal: AbortSignal,
): Promise<PoolOfClaim> {
  const { namespace, pool: reference } = claim;
  const { kind, name } = reference;
  const isNamespaced = kind === "NamespacedAddressPool";
  const resource = isNamespaced ? { ...NAMESPACED_POOLS, namespace } : ADDRESS_POOLS;
  const object = await readNow(api, resource, name, signal);
  const none = (why: string): PoolOfClaim => ({
    object,
    isPaused: object !== undefined && isPaused(object),
    source: why,
  });
  if (object === undefined) return none(`${kind} ${name} does not exist`);
  if (object.metadata["deletionTimestamp"] !== undefined) return none(`${kind} ${name} is being deleted`);
  const own = isNamespaced ? await readNow(api, ADDRESS_POOLS, addressPoolOf(claim), signal) : object;
  if (own === undefined || (isNamespaced && annotationOf(own) !== `${namespace}/${name}`))
    return none(`${kind} ${name} has no AddressPool ${addressPoolOf(claim)} yet`);
  if (own.metadata["deletionTimestamp"] !== undefined)
    return none(`AddressPool ${addressPoolOf(claim)} is being deleted`);
  try {
    const pool = parseAddressPool(own);
    const space = await readNow(api, ADDRESS_SPACES, pool.space, signal);
    if (space === undefined) return none(`AddressSpace ${pool.space} does not exist`);
    return { ...none(""), source: { pool, space: parseAddressSpace(space) } };
  } catch (error) {
    if (error instanceof ApiFailure) throw error;
    return none(describeThrown(error));
  }
}

/** The reference of an owner that does not own alone (contract, IPAddress). */
export function poolOwnerReference({ kind, name }: ClaimEntry["pool"], { metadata }: KubeObject): object {
  const { uid } = metadata;
  return { apiVersion: IPAM_API_VERSION, kind, name, uid, controller: false, blockOwnerDeletion: true };
}

export function annotationOf({ metadata }: KubeObject): string | undefined {
  return ((metadata["annotations"] ?? {}) as Readonly<Record<string, string>>)[NAMESPACED_ANNOTATION];
}
