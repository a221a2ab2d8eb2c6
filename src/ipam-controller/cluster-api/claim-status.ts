import type { KubeObject } from "../../kube-api/client.ts";
import type { ClaimVersion } from "./objects.ts";

/** What a claim's condition `Ready` says; reasons of the contract for IPAM providers. */
export type Readiness =
  | { readonly isReady: true; readonly address: string }
  | {
      readonly isReady: false;
      readonly reason: "AllocationFailed" | "PoolNotReady" | "PoolExhausted";
      readonly message: string;
    };

interface StatusOfClaim {
  readonly addressRef?: { readonly name?: string };
  readonly conditions?: readonly (Readonly<Record<string, unknown>> & { readonly type?: string })[];
}

/**
 * The status that a claim should have; what others wrote into it stays. In v1beta2 conditions are those of Kubernetes, in
 * v1beta1 Cluster API's own, with a severity where they are false. A condition that does not change keeps its time.
 * @param now RFC 3339
 */
export function planClaimStatus(
  claim: KubeObject,
  version: ClaimVersion,
  readiness: Readiness,
  now: string,
): object {
  const status = (claim["status"] ?? {}) as StatusOfClaim;
  const { conditions = [] } = status;
  const before = conditions.find(({ type }) => type === "Ready");
  const wanted = conditionOf(claim, version, readiness);
  const isSame = before?.["status"] === wanted.status && typeof before["lastTransitionTime"] === "string";
  const ready = { ...wanted, lastTransitionTime: isSame ? before["lastTransitionTime"] : now };
  const others = conditions.filter(({ type }) => type !== "Ready");
  const addressRef = readiness.isReady ? { addressRef: { name: claim.metadata.name } } : {};
  return { ...status, ...addressRef, conditions: [...others, ready] };
}

function conditionOf(claim: KubeObject, version: ClaimVersion, readiness: Readiness) {
  const type = "Ready";
  const status = readiness.isReady ? "True" : "False";
  if (version === "v1beta1")
    return readiness.isReady
      ? { type, status }
      : { type, status, severity: "Error", reason: readiness.reason, message: readiness.message };
  const { generation } = claim.metadata;
  const observed = typeof generation === "number" ? { observedGeneration: generation } : {};
  return readiness.isReady
    ? { type, status, reason: "Allocated", message: `The address is ${readiness.address}`, ...observed }
    : { type, status, reason: readiness.reason, message: readiness.message, ...observed };
}
