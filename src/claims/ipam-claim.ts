import * as z from "zod";
import { type ObjectIdentity, parseObject } from "../address-objects/fields.ts";
import { statusOf } from "../address-objects/resources.ts";
import { ADDRESS_BITS, type Address, formatPrefix, parseAddress } from "../addresses/address.ts";
import type { KubeApi, KubeObject } from "../kube-api/client.ts";
import { present } from "../names/present.ts";
import { IPAM_CLAIMS, inNamespace, POOLS_ANNOTATION } from "./resources.ts";

/** An address of a claim, with the prefix length of its subnet. */
export type ClaimAddress = Address & { readonly length: number };

/** What IPAM writes: OVN-Kubernetes' type with its reasons and some of ours, and a type of ours. */
export interface ClaimCondition {
  readonly type: "IPsAllocated" | "NetworkChanged";
  readonly status: "True" | "False";
  readonly reason:
    | "SuccessfulAllocation"
    | "SubnetExhausted"
    | "IPAddressConflict"
    /** NetworkAttachmentDefinitions of the network differ, or do not allow claims. */
    | "NetworkConflict"
    | "PersistentIPsNotAllowed"
    | "PoolMissing"
    /** Of NetworkChanged. */
    | "InterfaceOfOtherNetwork"
    | "SameNetwork";
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
}

/** Who owns a claim. */
export interface ClaimOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** Addresses that outlive the pods that use them (IPAMClaim, multi-network spec 1.3, section 8). */
export interface IpamClaim extends ObjectIdentity {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly owners: readonly ClaimOwner[];
  /** The network's name in its CNI configuration. */
  readonly network: string;
  /** Often empty: kubevirt/ipam-extensions does not set it. */
  readonly interface: string;
  /** Of its annotation, where the network is a ResourceClaim's. */
  readonly pools: readonly string[] | undefined;
  /** Published; they never change. Empty until then. */
  readonly ips: readonly ClaimAddress[];
  /** Name of the pod that was last given the addresses. */
  readonly ownerPod: string | undefined;
  readonly conditions: readonly { readonly type: string; readonly [key: string]: unknown }[];
}

const claimAddress = z.string().transform((text, context): ClaimAddress => {
  const [base = "", length = "", ...more] = text.split("/");
  const address = parseAddress(base);
  const isLength = /^\d{1,3}$/.test(length) && more.length === 0;
  if (address !== undefined && isLength && Number(length) <= ADDRESS_BITS[address.family])
    return { ...address, length: Number(length) };
  context.addIssue(`${JSON.stringify(text)} is not an address with a prefix length`);
  return z.NEVER;
});

const texts = z.record(z.string(), z.string()).nullish();

const schema = z.looseObject({
  metadata: z.looseObject({
    namespace: z.string().min(1),
    labels: texts,
    annotations: texts,
    finalizers: z.array(z.string()).nullish(),
    ownerReferences: z
      .array(z.looseObject({ apiVersion: z.string(), kind: z.string(), name: z.string(), uid: z.string() }))
      .nullish(),
  }),
  spec: z.looseObject({ network: z.string(), interface: z.string().default("") }),
  status: z
    .looseObject({
      ips: z.array(claimAddress).nullish(),
      ownerPod: z.looseObject({ name: z.string() }).nullish(),
      conditions: z.array(z.looseObject({ type: z.string() })).nullish(),
    })
    .nullish(),
});

/**
 * Parses a claim strictly: of addresses that cannot be read it is not known whose they are.
 * @throws Failure `invalid-address-object`
 */
export function parseIpamClaim(object: unknown): IpamClaim {
  const { content, ...identity } = parseObject("IPAMClaim", schema, object);
  const { metadata, spec, status } = content;
  const { namespace, labels, annotations, finalizers, ownerReferences } = metadata;
  return {
    ...{ ...identity, namespace, labels: labels ?? {}, annotations: annotations ?? {} },
    finalizers: finalizers ?? [],
    owners: (ownerReferences ?? []).map(({ apiVersion, kind, name, uid }) => ({
      apiVersion,
      kind,
      name,
      uid,
    })),
    ...{ network: spec.network, interface: spec.interface },
    pools: annotations?.[POOLS_ANNOTATION]?.split(","),
    ips: status?.ips ?? [],
    ownerPod: status?.ownerPod?.name || undefined,
    conditions: status?.conditions ?? [],
  };
}

/** The condition that says how an allocation ended. @param nowMs milliseconds since the epoch */
export function claimCondition(
  reason: ClaimCondition["reason"],
  message: string,
  nowMs: number,
): ClaimCondition {
  const status = reason === "SuccessfulAllocation" ? "True" : "False";
  return { type: "IPsAllocated", status, reason, message, lastTransitionTime: secondsOf(nowMs) };
}

/**
 * The condition that says whether the last interface that referred to the claim was of another network, as after a change of a
 * running VM's network (LiveUpdateNADRef).
 * @param problem undefined where it was of the claim's network
 */
export function networkCondition(problem: string | undefined, nowMs: number): ClaimCondition {
  const isChanged = problem !== undefined;
  return {
    ...{ type: "NetworkChanged", status: isChanged ? "True" : "False", message: problem ?? "" },
    ...{
      reason: isChanged ? "InterfaceOfOtherNetwork" : "SameNetwork",
      lastTransitionTime: secondsOf(nowMs),
    },
  };
}

/** RFC 3339 with seconds, as conditions have it. */
function secondsOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** What is to be published of a claim. */
export interface ClaimStatus {
  /** In the order of the network's pools; empty where the allocation failed. */
  readonly ips: readonly ClaimAddress[];
  readonly ownerPod?: string | undefined;
  readonly condition?: ClaimCondition | undefined;
}

/**
 * Writes a claim's status over the one that was read: addresses that are published stay whatever is passed, as do keys and
 * conditions of others. This write decides between programs that allocate for the claim at the same time.
 * @throws ApiFailure `conflict` where the claim has changed since, `not-found`
 */
export function writeClaimStatus(
  api: Pick<KubeApi, "update">,
  read: KubeObject,
  { ips, ownerPod, condition }: ClaimStatus,
  signal: AbortSignal,
): Promise<KubeObject> {
  const claim = parseIpamClaim(read);
  const before = (read["status"] ?? {}) as { readonly [key: string]: unknown };
  const others = claim.conditions.filter((one) => one.type !== condition?.type);
  const status = present({
    ...before,
    ips: claim.ips.length > 0 ? before["ips"] : ips.map(formatPrefix),
    ownerPod: ownerPod === undefined ? before["ownerPod"] : { name: ownerPod },
    conditions: condition === undefined ? before["conditions"] : [...others, condition],
  });
  const resource = statusOf(inNamespace(IPAM_CLAIMS, claim.namespace));
  return api.update(resource, { ...read, status }, signal);
}
