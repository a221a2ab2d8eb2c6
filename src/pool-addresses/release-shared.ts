import {
  type AddressAllocation,
  changedAllocation,
  parseAddressAllocation,
} from "../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS } from "../address-objects/resources.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi, KubeObject } from "../kube-api/client.ts";

/**
 * Deletes exactly this allocation, as it was read: its address is free at once, without a cooldown.
 * @returns false where it has changed since, or another one has its name; true also if it is gone already
 * @throws ApiFailure
 */
export async function releaseShared(
  api: Pick<KubeApi, "delete">,
  { name, uid, resourceVersion }: Pick<AddressAllocation, "name" | "uid" | "resourceVersion">,
  signal: AbortSignal,
): Promise<boolean> {
  return isDone(api.delete(ADDRESS_ALLOCATIONS, name, { uid, resourceVersion }, signal));
}

/**
 * Releases exactly this allocation, as it was read, after its use: a sticky one stays and waits for its key, another is deleted.
 * @returns false where it has changed since; true also if it is gone already
 * @throws ApiFailure
 */
export async function endUse(
  api: Pick<KubeApi, "update" | "delete">,
  object: KubeObject,
  signal: AbortSignal,
): Promise<boolean> {
  const allocation = parseAddressAllocation(object);
  if (allocation.key === undefined) return releaseShared(api, allocation, signal);
  const waiting = changedAllocation(object, { node: undefined, owner: undefined });
  return isDone(api.update(ADDRESS_ALLOCATIONS, waiting, signal));
}

async function isDone(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (error instanceof ApiFailure && error.problem === "not-found") return true;
    if (error instanceof ApiFailure && error.problem === "conflict") return false;
    throw error;
  }
}
