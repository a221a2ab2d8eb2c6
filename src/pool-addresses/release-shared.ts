import type { AddressAllocation } from "../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS } from "../address-objects/resources.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi } from "../kube-api/client.ts";

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
  try {
    await api.delete(ADDRESS_ALLOCATIONS, name, { uid, resourceVersion }, signal);
    return true;
  } catch (error) {
    if (error instanceof ApiFailure && error.problem === "not-found") return true;
    if (error instanceof ApiFailure && error.problem === "conflict") return false;
    throw error;
  }
}
