import { randomUUID } from "node:crypto";
import type { KubeObject } from "../../../src/kube-api/client.ts";

/** The driver under test, as its users write it. */
export const DRIVER = "vhostuser.kube-vhostuser.io";

/** A result of a claim's allocation; what is left out is that of a shared device of the node's pool. */
export interface ResultWish {
  readonly request?: string;
  readonly driver?: string;
  readonly pool?: string;
  readonly device?: string;
  readonly shareID?: string;
  readonly adminAccess?: boolean;
  readonly consumedCapacity?: Readonly<Record<string, string>>;
}

/** An entry of the allocation's configuration. */
export interface ConfigWish {
  readonly source: "FromClass" | "FromClaim";
  readonly requests?: readonly string[];
  readonly driver?: string;
  readonly parameters: object;
}

/** A ResourceClaim as the scheduler left it. */
export interface ClaimWish {
  readonly name: string;
  readonly uid?: string;
  readonly namespace?: string;
  /** The pod's name of a template's claim. */
  readonly podClaimName?: string;
  readonly pods?: readonly { readonly name: string; readonly uid: string; readonly apiGroup?: string }[];
  readonly results?: readonly ResultWish[];
  readonly config?: readonly ConfigWish[];
}

/** An allocated and reserved ResourceClaim (resource.k8s.io/v1). */
export function claimObject(wish: ClaimWish): KubeObject & { readonly metadata: { readonly uid: string } } {
  const { name, namespace = "ns", podClaimName, pods = [{ name: "pod", uid: "pod-uid" }] } = wish;
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      ...{ name, namespace, uid: wish.uid ?? randomUUID(), resourceVersion: "7" },
      ...(podClaimName === undefined
        ? {}
        : { annotations: { "resource.kubernetes.io/pod-claim-name": podClaimName } }),
    },
    spec: { devices: { requests: [] } },
    status: {
      allocation: {
        devices: {
          results: (wish.results ?? [{}]).map((result) => ({
            ...{ request: "net", driver: DRIVER, pool: "n1", device: "one", shareID: randomUUID() },
            ...{ consumedCapacity: { ports: "1" }, ...result },
          })),
          config: (wish.config ?? []).map(({ source, requests, driver = DRIVER, parameters }) => ({
            ...{ source, ...(requests && { requests }), opaque: { driver, parameters } },
          })),
        },
      },
      reservedFor: pods.map((pod) => ({ resource: "pods", ...pod })),
    },
  };
}

/** Parameters of our own kind. */
export function portParameters(keys: object): object {
  return { apiVersion: `${DRIVER}/v1alpha1`, kind: "VhostUserPort", ...keys };
}

/** Parameters of kind CNIConfig. @param config a CNI configuration, as an object or as text */
export function cniConfig(config: unknown, ifName = "net1"): object {
  return { apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig", ifName, config };
}
