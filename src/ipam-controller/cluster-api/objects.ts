// Cluster API's objects as far as an IPAM provider needs them, in v1beta2 and v1beta1, and ours that stand for pools.
import * as z from "zod";
import { IPAM_GROUP } from "../../address-objects/resources.ts";
import { type Address, parseAddress } from "../../addresses/address.ts";
import type { KubeObject, Resource } from "../../kube-api/client.ts";

export const CLAIM_GROUP = "ipam.cluster.x-k8s.io";
export const CLUSTER_GROUP = "cluster.x-k8s.io";
/** Versions that are understood, the preferred one first. */
export const CLAIM_VERSIONS = ["v1beta2", "v1beta1"] as const;
export type ClaimVersion = (typeof CLAIM_VERSIONS)[number];

/** Of claims, until their address is released. */
export const RELEASE_FINALIZER = `${IPAM_GROUP}/release-address`;
/** Of IPAddresses, while their claim is there. */
export const PROTECT_FINALIZER = `${IPAM_GROUP}/protect-address`;
/** Also names the cluster of a claim without spec.clusterName. */
export const CLUSTER_LABEL = `${CLUSTER_GROUP}/cluster-name`;
/** With any value, as all of Cluster API takes it. */
const PAUSED = `${CLUSTER_GROUP}/paused`;

/** Kinds of our pools that a claim can name: `AddressPool` for all namespaces. */
const POOL_KINDS = ["AddressPool", "NamespacedAddressPool"] as const;

const metadataSchema = z.looseObject({
  namespace: z.string().min(1),
  name: z.string().min(1),
  uid: z.string().min(1),
  resourceVersion: z.string().min(1),
  deletionTimestamp: z.string().optional(),
  finalizers: z.array(z.string()).default([]),
  labels: z.record(z.string(), z.string()).default({}),
  annotations: z.record(z.string(), z.string()).default({}),
  ownerReferences: z
    .array(
      z.looseObject({
        apiVersion: z.string(),
        kind: z.string(),
        uid: z.string(),
        controller: z.boolean().default(false),
      }),
    )
    .default([]),
});

/** Claims and addresses of other providers name pools of another group or kind. */
const poolSchema = z.looseObject({
  apiGroup: z.literal(IPAM_GROUP),
  kind: z.enum(POOL_KINDS),
  name: z.string().min(1),
});

const claimSchema = z.looseObject({
  metadata: metadataSchema,
  spec: z.looseObject({ clusterName: z.string().optional(), poolRef: poolSchema }),
  status: z
    .looseObject({
      addressRef: z.looseObject({ name: z.string().default("") }).optional(),
      conditions: z
        .array(z.looseObject({ type: z.string(), status: z.string(), reason: z.string().optional() }))
        .default([]),
    })
    .optional(),
});

const addressSchema = z.looseObject({
  metadata: metadataSchema,
  spec: z.looseObject({
    claimRef: z.looseObject({ name: z.string() }),
    poolRef: poolSchema,
    address: z.string(),
  }),
});

type PoolReference = Readonly<z.infer<typeof poolSchema>>;

interface Identity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isDeleting: boolean;
  readonly finalizers: readonly string[];
  readonly pool: PoolReference;
}

/** An IPAddressClaim that names one of our pools. */
export interface ClaimEntry extends Identity {
  readonly isPaused: boolean;
  readonly clusterName: string | undefined;
  /** Name of the IPAddress that its status names. */
  readonly addressRef: string | undefined;
  readonly isReady: boolean;
  /** Why it is not. */
  readonly reason: string | undefined;
}

/** An IPAddress from one of our pools. */
export interface IpAddressEntry extends Identity {
  /** Undefined where it is not an address, which Cluster API's webhook refuses. */
  readonly address: Address | undefined;
  readonly claimName: string;
  /** Uid of the claim that owns it, if any does. */
  readonly claimUid: string | undefined;
}

/** @returns undefined where the claim is another provider's */
export function claimOf(object: KubeObject): ClaimEntry | undefined {
  const { success, data } = claimSchema.safeParse(object);
  if (!success) return undefined;
  const { metadata, spec, status } = data;
  const name = status?.addressRef?.name ?? "";
  const ready = status?.conditions.find(({ type }) => type === "Ready");
  return {
    ...identityOf(metadata),
    pool: spec.poolRef,
    isPaused: PAUSED in metadata.annotations,
    clusterName: spec.clusterName || metadata.labels[CLUSTER_LABEL] || undefined,
    addressRef: name === "" ? undefined : name,
    isReady: ready?.status === "True",
    reason: ready?.reason,
  };
}

/** @returns undefined where the address is another provider's */
export function ipAddressOf(object: KubeObject): IpAddressEntry | undefined {
  const { success, data } = addressSchema.safeParse(object);
  if (!success) return undefined;
  const { metadata, spec } = data;
  const owner = metadata.ownerReferences.find(
    ({ apiVersion, kind, controller }) =>
      controller && kind === "IPAddressClaim" && apiVersion.startsWith(`${CLAIM_GROUP}/`),
  );
  return {
    ...identityOf(metadata),
    pool: spec.poolRef,
    address: parseAddress(spec.address),
    claimName: spec.claimRef.name,
    claimUid: owner?.uid,
  };
}

function identityOf(metadata: z.infer<typeof metadataSchema>): Omit<Identity, "pool"> {
  const { namespace, name, uid, resourceVersion, deletionTimestamp, finalizers } = metadata;
  return { namespace, name, uid, resourceVersion, finalizers, isDeleting: deletionTimestamp !== undefined };
}

/** Whether an object, or for a Cluster its spec, asks controllers to leave what belongs to it alone. */
export function isPaused({ metadata, spec }: KubeObject): boolean {
  const annotations = (metadata["annotations"] ?? {}) as Readonly<Record<string, string>>;
  return PAUSED in annotations || (spec as { readonly paused?: unknown } | undefined)?.paused === true;
}

/** The same object with other finalizers, for an update. */
export function withFinalizers(object: KubeObject, finalizers: readonly string[]): KubeObject {
  return { ...object, metadata: { ...object.metadata, finalizers } };
}

/** Key of an object among those of all namespaces. */
export function keyOf({ metadata: { namespace = "", name } }: KubeObject): string {
  return `${namespace}/${name}`;
}

/** Name of the AddressPool that stands for a NamespacedAddressPool. */
export function clusterPoolName(namespace: string, name: string): string {
  return `${namespace}.${name}`;
}

/** Which AddressPool's addresses a claim gets. */
export function addressPoolOf({
  namespace,
  pool: { kind, name },
}: Pick<Identity, "namespace" | "pool">): string {
  return kind === "AddressPool" ? name : clusterPoolName(namespace, name);
}

/** The resources of the version that the cluster serves. */
export class ClusterApiResources {
  readonly version: ClaimVersion;
  readonly claims: Resource;
  readonly addresses: Resource;
  /** Undefined where the cluster has only the IPAM part of Cluster API. */
  readonly clusters: Resource | undefined;

  constructor(version: ClaimVersion, clusterVersion: string | undefined) {
    this.version = version;
    this.claims = { group: CLAIM_GROUP, version, plural: "ipaddressclaims" };
    this.addresses = { group: CLAIM_GROUP, version, plural: "ipaddresses" };
    this.clusters =
      clusterVersion === undefined
        ? undefined
        : { group: CLUSTER_GROUP, version: clusterVersion, plural: "clusters" };
  }

  get apiVersion(): string {
    return `${CLAIM_GROUP}/${this.version}`;
  }

  get text(): string {
    return `${this.version} ${this.clusters?.version ?? ""}`;
  }
}
