import type { FakeApiServer } from "../api-server/fake-api-server.ts";
import type { PodClaim } from "../kubelet/dra-manager.ts";
import { type ClaimWish, claimObject } from "./claim-object.ts";

/** Stores a claim as the scheduler leaves it. @returns the claim as its pod's kubelet names it to the driver */
export function storeClaim(api: FakeApiServer, wish: ClaimWish & { readonly namespace: string }): PodClaim {
  const { name, namespace } = wish;
  const { metadata, ...claim } = claimObject(wish);
  // The server gives these itself.
  const { resourceVersion: _, uid: __, ...wanted } = metadata;
  const { uid } = api.store.create(`${namespace}/resourceclaims`, { ...claim, metadata: wanted }).metadata;
  return { namespace, name, uid };
}

/** Deletes a claim, as the control plane does with a template's claim when its pod is over. */
export function deleteClaim(api: FakeApiServer, { namespace, name }: PodClaim): void {
  api.store.remove(`${namespace}/resourceclaims`, name, {});
}
