import * as z from "zod";
import { Failure } from "../failure/failure.ts";
import type { ClaimReference } from "../kubelet/dra-service.ts";
import { present } from "../names/present.ts";
import type { ClaimHolder } from "../records/claim-holder.ts";
import type { Refuse } from "./cni-config.ts";
import { DRA_DRIVER } from "./dra-context.ts";
import { BANDWIDTH } from "./inventory.ts";
import { quantitySchema } from "./quantity.ts";

/** A result of a claim's allocation that is this driver's. */
export type ClaimResult = Pick<
  ClaimHolder,
  "request" | "subrequest" | "index" | "slicePool" | "device" | "shareID"
> & {
  /** For looking at a device that others use: nothing may be made for it (KEP-5018). */
  readonly isAdminAccess: boolean;
  /** What it takes of its pool's bandwidth, in bits a second; undefined or 0 for none. */
  readonly bandwidth?: number | undefined;
};

/** An entry of the allocation's configuration. */
export interface ConfigEntry {
  readonly source: "FromClass" | "FromClaim";
  /** Which requests it is for; empty for all. */
  readonly requests: readonly string[];
  readonly driver: string;
  readonly parameters: unknown;
}

/** An allocated claim, as far as this driver needs it. */
export interface AllocatedClaim
  extends Pick<ClaimHolder, "namespace" | "name" | "uid" | "podClaimName" | "pod"> {
  readonly results: readonly ClaimResult[];
  readonly config: readonly ConfigEntry[];
  /** Those of all results. */
  readonly drivers: ReadonlySet<string>;
}

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const label = z.string().regex(DNS_LABEL, "must be a DNS label");
/** It becomes a part of paths. */
const objectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be a DNS subdomain");
const uid = z
  .string()
  .max(63)
  .regex(/^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$/, "must be a UID");

const resultSchema = z.looseObject({
  request: z
    .string()
    .refine((text) => text.split("/").length <= 2 && text.split("/").every((part) => DNS_LABEL.test(part)), {
      error: "must be the name of a request, or of a request and a subrequest",
    }),
  driver: z.string(),
  pool: z.string().min(1),
  device: label,
  shareID: z.string().min(1).nullish(),
  adminAccess: z.boolean().nullish(),
  consumedCapacity: z.looseObject({ [BANDWIDTH]: quantitySchema.optional() }).nullish(),
});

const configSchema = z.looseObject({
  source: z.enum(["FromClass", "FromClaim"]),
  requests: z.array(z.string()).nullish(),
  opaque: z.looseObject({ driver: z.string(), parameters: z.unknown() }).nullish(),
});

const claimSchema = z.looseObject({
  metadata: z.looseObject({
    name: objectName,
    namespace: objectName,
    uid,
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  status: z
    .looseObject({
      allocation: z
        .looseObject({
          devices: z.looseObject({
            results: z.array(resultSchema).nullish(),
            config: z.array(configSchema).nullish(),
          }),
        })
        .nullish(),
      reservedFor: z
        .array(
          z.looseObject({
            apiGroup: z.string().nullish(),
            resource: z.string(),
            name: objectName,
            uid,
          }),
        )
        .nullish(),
    })
    .nullish(),
});

/** What Kubernetes annotates claims with that it made from a pod's template. */
const POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name";

/**
 * Parses a ResourceClaim (resource.k8s.io/v1) that is to be prepared.
 * @param reference what kubelet asked for: a claim of this name with another UID has replaced it
 * @param driver whose results are wanted
 * @throws Failure `invalid-claim`
 */
export function parseClaim(
  object: unknown,
  reference: ClaimReference,
  driver: string = DRA_DRIVER,
): AllocatedClaim {
  const where = `claim ${reference.namespace}/${reference.name}`;
  const refuse = (what: string, fix: string) => new Failure({ code: "invalid-claim", what, where, fix });
  const parsed = claimSchema.safeParse(object);
  if (!parsed.success) {
    throw refuse(z.prettifyError(parsed.error).replaceAll("\n", " "), "its author has to correct it");
  }
  const { metadata, status } = parsed.data;
  if (metadata.uid !== reference.uid) {
    throw refuse(
      `kubelet asks for UID ${reference.uid}, the claim has ${metadata.uid}: it was replaced by another one`,
      "delete the pod, so that it is made with the claim that there is now",
    );
  }
  const allocation = status?.allocation;
  if (allocation === undefined || allocation === null)
    throw refuse("it is not allocated", "the scheduler does that; delete the pod");
  const [pod, ...others] = (status?.reservedFor ?? []).filter(
    ({ apiGroup, resource }) => !apiGroup && resource === "pods",
  );
  if (pod === undefined)
    throw refuse("it is not reserved for a pod", "the scheduler does that; delete the pod");
  if (others.length > 0) {
    throw refuse(
      `it is reserved for ${others.length + 1} pods, and its devices can be of one pod only`,
      "let each pod have its own claim, by a ResourceClaimTemplate",
    );
  }
  const podClaimName = metadata.annotations?.[POD_CLAIM_NAME] || undefined;
  if (podClaimName !== undefined && !DNS_LABEL.test(podClaimName)) {
    throw refuse(
      `its annotation ${POD_CLAIM_NAME} is ${JSON.stringify(podClaimName)}, which is no DNS label`,
      "remove the annotation",
    );
  }
  const { results, config } = allocation.devices;
  const { namespace, name } = metadata;
  return present({
    ...{ namespace, name, uid: metadata.uid, podClaimName },
    pod: { namespace, name: pod.name, uid: pod.uid },
    results: resultsOf(results ?? [], driver),
    config: (config ?? []).flatMap(({ source, requests, opaque }) => {
      if (opaque === undefined || opaque === null) return [];
      return [{ source, requests: requests ?? [], driver: opaque.driver, parameters: opaque.parameters }];
    }),
    drivers: new Set(results?.map(({ driver }) => driver)),
  });
}

/** Where a result's port or interface is to be corrected. */
export function whereOf(
  { namespace, name }: Pick<AllocatedClaim, "namespace" | "name">,
  { request }: Pick<ClaimResult, "request">,
): string {
  return `claim ${namespace}/${name}, request ${request}`;
}

/** Makes the failures `invalid-claim` of one request. */
export function refuseIn(...at: Parameters<typeof whereOf>): Refuse {
  return (what, fix) => new Failure({ code: "invalid-claim", what, where: whereOf(...at), fix });
}

function resultsOf(results: readonly z.infer<typeof resultSchema>[], wanted: string): readonly ClaimResult[] {
  const counts = new Map<string, number>();
  return results
    .filter(({ driver }) => driver === wanted)
    .map(({ request: full, pool: slicePool, device, shareID, adminAccess, consumedCapacity }) => {
      const [request = "", subrequest] = full.split("/");
      const index = counts.get(request) ?? 0;
      counts.set(request, index + 1);
      const isAdminAccess = adminAccess === true;
      return present({
        request,
        subrequest,
        index,
        slicePool,
        device,
        shareID: shareID ?? undefined,
        isAdminAccess,
        bandwidth: consumedCapacity?.[BANDWIDTH],
      });
    });
}
