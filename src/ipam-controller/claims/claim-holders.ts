import * as z from "zod";
import { type Address, parseAddress } from "../../addresses/address.ts";
import { claimName } from "../../claims/claim-name.ts";
import { parseLauncherPod } from "../../claims/launcher-pod.ts";
import { type NetworkSelection, parseNetworkSelection } from "../../claims/network-selection.ts";
import { NETWORKS_ANNOTATION, RESOURCE_CLAIMS } from "../../claims/resources.ts";
import { DRA_DRIVER } from "../../dra/dra-context.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeApi, KubeObject } from "../../kube-api/client.ts";
import { PODS } from "../look.ts";
import { sameAddress } from "./claims-view.ts";

/** Written by Multus after all of a pod's networks are attached (multi-network spec 1.3, section 4.4). */
const STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status";

const statusSchema = z.array(
  z.looseObject({
    interface: z.string().optional(),
    ips: z.array(z.string()).optional(),
    default: z.boolean().optional(),
  }),
);

type Attached = z.infer<typeof statusSchema>[number];

/** A pod that may have addresses. */
export interface Holder {
  readonly pod: Pick<KubeObject, "metadata">;
  /** Addresses of its ResourceClaims; undefined while the daemon has not said which each of them has. */
  readonly ofClaims: readonly string[] | undefined;
}

const nameSchema = z.looseObject({ name: z.string(), resourceClaimName: z.string().nullish() });
const podSchema = z.looseObject({
  spec: z.looseObject({ resourceClaims: z.array(nameSchema).nullish() }).nullish(),
  status: z.looseObject({ resourceClaimStatuses: z.array(nameSchema).nullish() }).nullish(),
});
const deviceSchema = z.looseObject({
  ...{ driver: z.string(), pool: z.string(), device: z.string(), shareID: z.string().nullish() },
  networkData: z.looseObject({ ips: z.array(z.string()).nullish() }).nullish(),
});
const resourceClaimSchema = z.looseObject({
  status: z
    .looseObject({
      allocation: z
        .looseObject({ devices: z.looseObject({ results: z.array(deviceSchema).nullish() }) })
        .nullish(),
      devices: z.array(deviceSchema).nullish(),
    })
    .nullish(),
});

/**
 * The pods of a namespace, as the API server has them now, in whatever phase.
 * @throws ApiFailure, ZodError: then nothing is known
 */
export async function listHolders(
  api: Pick<KubeApi, "list">,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly Holder[]> {
  const { objects } = await api.list({ ...PODS, namespace }, {}, signal, ({ metadata, spec, status }) => ({
    metadata,
    claims: parseLauncherPod(metadata) === undefined ? [] : resourceClaimsOf({ spec, status }),
  }));
  const pods = objects.map(({ metadata, claims }) => ({
    metadata,
    claims: claims as (string | undefined)[],
  }));
  const hasClaims = pods.some(({ claims }) => claims.length > 0);
  const found = hasClaims ? await listResourceClaims(api, namespace, signal) : undefined;
  if (found === undefined) return pods.map(({ metadata }) => ({ pod: { metadata }, ofClaims: [] }));
  const byName = new Map(found.map((claim) => [claim.metadata.name, addressesOf(claim)]));
  return pods.map(({ metadata, claims }) => {
    const all = claims.map((name) => (name === undefined ? undefined : byName.get(name)));
    const isKnown = !all.includes(undefined);
    return { pod: { metadata }, ofClaims: isKnown ? all.flatMap((ips) => ips ?? []) : undefined };
  });
}

/** Undefined in a cluster that is too old for those of our driver. */
async function listResourceClaims(
  api: Pick<KubeApi, "list">,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly KubeObject[] | undefined> {
  try {
    return (await api.list({ ...RESOURCE_CLAIMS, namespace }, {}, signal)).objects;
  } catch (error) {
    if (error instanceof ApiFailure && error.problem === "not-found") return undefined;
    throw error;
  }
}

/** Names of a pod's ResourceClaims; undefined for one that is not made yet. */
function resourceClaimsOf(pod: unknown): readonly (string | undefined)[] {
  const { spec, status } = podSchema.parse(pod);
  return (spec?.resourceClaims ?? []).map(({ name, resourceClaimName }) => {
    const made = status?.resourceClaimStatuses?.find((one) => one.name === name);
    return resourceClaimName ?? made?.resourceClaimName ?? undefined;
  });
}

/** Addresses of a ResourceClaim's ports; undefined where the daemon has not said that each of them is made. */
function addressesOf(claim: KubeObject): readonly string[] | undefined {
  const { status } = resourceClaimSchema.parse(claim);
  // Not prepared before it is allocated.
  const results = status?.allocation?.devices.results ?? [];
  const ours = results.filter(({ driver }) => driver === DRA_DRIVER);
  const made = ours.map((result) =>
    status?.devices?.find((one) =>
      (["driver", "pool", "device", "shareID"] as const).every((key) => one[key] === result[key]),
    ),
  );
  if (made.some((one) => one?.networkData == null)) return undefined;
  // With the lengths of their prefixes.
  return made.flatMap((one) => one?.networkData?.ips ?? []).map((ip) => ip.replace(/\/.*$/, ""));
}

/**
 * Whether a pod of the claim's namespace, in whatever phase, may have an address by a claim. It may where Multus says so, and
 * where it uses a claim of this name and Multus does not say yet which addresses it has; of ResourceClaims the daemon says it. A
 * pod of a later claim of the same name has other addresses.
 */
export function mayHold({ pod, ofClaims }: Holder, claim: string, address: Address): boolean {
  if (ofClaims === undefined ? isLauncherFor(pod, claim) : hasAddress(ofClaims, address)) return true;
  const { name, namespace = "", annotations } = pod.metadata;
  const { [NETWORKS_ANNOTATION]: networks = "", [STATUS_ANNOTATION]: text } = (annotations ?? {}) as Readonly<
    Record<string, string>
  >;
  const status = statusOf(text);
  if (status?.some(({ ips = [] }) => hasAddress(ips, address)) === true) return true;
  const selections = selectionsOf(networks, String(namespace), name);
  // What cannot be read counts as in use, where it may be about this claim.
  if (selections === undefined) return networks.includes(claim);
  const secondary = status?.filter((one) => one.default !== true);
  const own = selections.find((one) => one.claim === claim);
  if (own !== undefined) {
    const attached = secondary?.find((one) => one.interface === own.interface);
    return attached?.ips === undefined || attached.ips.length === 0;
  }
  return isLauncherFor(pod, claim) && (secondary?.length ?? 0) < selections.length;
}

/** A launcher pod without a reference: our agent knows the claim by the VM's name. */
function isLauncherFor({ metadata }: Holder["pod"], claim: string): boolean {
  const launcher = parseLauncherPod(metadata);
  return launcher !== undefined && claim.startsWith(`${claimName(launcher.vmi, "")}.`);
}

function hasAddress(ips: readonly string[], address: Address): boolean {
  return ips.some((text) => {
    const other = parseAddress(text);
    return other !== undefined && sameAddress(other, address);
  });
}

function statusOf(text: string | undefined): readonly Attached[] | undefined {
  if (text === undefined) return undefined;
  try {
    return statusSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function selectionsOf(text: string, namespace: string, pod: string): readonly NetworkSelection[] | undefined {
  try {
    return parseNetworkSelection(text, namespace, pod);
  } catch {
    return undefined;
  }
}
