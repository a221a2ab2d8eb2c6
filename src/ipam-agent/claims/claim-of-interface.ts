import { type IpamClaim, parseIpamClaim } from "../../claims/ipam-claim.ts";
import { type LauncherPod, parseLauncherPod } from "../../claims/launcher-pod.ts";
import { type NetworkSelection, parseNetworkSelection } from "../../claims/network-selection.ts";
import {
  IPAM_CLAIMS,
  inNamespace,
  NETWORKS_ANNOTATION,
  VM_LABEL,
  VMI_INTERFACE_LABEL,
  VMI_REQUEST_LABEL,
  vmiInterfaceHash,
  vmiRequestHash,
} from "../../claims/resources.ts";
import { Failure } from "../../failure/failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { isOrdinalPodInterfaceName } from "../../names/interface-name.ts";
import type { AgentContext } from "../agent-context.ts";
import { unlessMissing } from "../own-blocks.ts";
import { PODS, podUidOf } from "../pods-of-node.ts";
import type { AllocationRequest } from "../request.ts";
import { requestedTexts } from "../requested-addresses.ts";

/** Before each look for the claim of a VM's ResourceClaim, in milliseconds. */
const PREPARE_WAITS_MS = [0, 300, 700, 1_500, 2_500];

/** A claim as it was read. */
export interface ReadClaim {
  readonly object: KubeObject;
  readonly claim: IpamClaim;
}

/**
 * Name of the claim whose addresses an interface gets, by its pod's network annotation, which no CNI request has, or as the one
 * that our controller makes for a VM; undefined for an interface whose addresses are the pod's own.
 * @throws Failure `ipam-claim-missing`, `ipam-claim-refused`, `unsupported-field`; ApiFailure
 */
export async function claimOfInterface(
  request: AllocationRequest,
  context: AgentContext,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { config, pod, interfaceName } = request;
  if (context.claims === "off") throw switchedOff();
  if (pod === undefined)
    throw refused("the runtime named no pod", "CNI_ARGS", "use a runtime that sets K8S_POD_UID");
  const where = `pod ${pod.namespace}/${pod.name}, interface ${interfaceName}`;
  const object = await context.api
    .get(inNamespace(PODS, pod.namespace), pod.name, signal)
    .catch(unlessMissing);
  // The annotation of another pod of this name says nothing about this one.
  if (object === undefined || podUidOf(object) !== pod.uid) throw podGone(where);
  const annotations = (object.metadata["annotations"] ?? {}) as Readonly<Record<string, string>>;
  const selections = parseNetworkSelection(annotations[NETWORKS_ANNOTATION] ?? "", pod.namespace, pod.name);
  const ofNetwork = request.resourceClaim === undefined;
  const selection = ofNetwork ? selectionOf(interfaceName, selections, where) : undefined;
  const name = selection?.claim ?? (await managedClaimOf(object, request, context, signal));
  if (name === undefined) return undefined;
  const others = selections.filter((one) => one !== selection && one.claim === name);
  if (selection?.claim !== undefined && others.length > 0)
    throw refused(
      `another network of the pod refers to claim ${name} too, and both interfaces would have its addresses`,
      where,
      "use a NetworkAttachmentDefinition of its own for each of the VM's networks",
    );
  const [requested] = requestedTexts(request);
  if (requested !== undefined)
    throw refused(
      `address ${requested} is requested, and claim ${name} has its own`,
      `${where}, network ${config.name}`,
      "request no address for an interface that has a claim",
    );
  return name;
}

/**
 * Makes sure that interfaces can get addresses of claims in this cluster.
 * @throws Failure `unsupported-field`, `ipam-claim-missing`; ApiFailure
 */
export async function requireClaims(
  { claims, api }: Pick<AgentContext, "claims" | "api">,
  signal: AbortSignal,
): Promise<void> {
  if (claims === "off") throw switchedOff();
  const { group, version, plural } = IPAM_CLAIMS;
  if ((await api.servedVersions(group, signal)).includes(version)) return;
  throw new Failure({
    code: "ipam-claim-missing",
    what: `${plural}.${group} ${version} is not served, so there are no claims`,
    where: "API server",
    fix: "install the CustomResourceDefinition of IPAMClaim",
  });
}

/**
 * Reads a claim that interfaces may use.
 * @throws Failure `ipam-claim-missing`, `invalid-address-object`; ApiFailure
 */
export async function readClaim(
  name: string,
  { pod }: Pick<AllocationRequest, "pod">,
  { api }: Pick<AgentContext, "api">,
  signal: AbortSignal,
): Promise<ReadClaim> {
  const namespace = pod?.namespace ?? "";
  const where = `IPAMClaim ${namespace}/${name}`;
  const object = await api.get(inNamespace(IPAM_CLAIMS, namespace), name, signal).catch(unlessMissing);
  if (object === undefined) throw missing(`there is no claim ${name} yet`, where);
  const claim = parseIpamClaim(object);
  if (claim.isDeleting) throw missing(`claim ${name} is being deleted`, where);
  return { object, claim };
}

/** KubeVirt names the interface of each element; Multus names those of others net1, net2 and so on. */
function selectionOf(
  interfaceName: string,
  selections: readonly NetworkSelection[],
  where: string,
): NetworkSelection | undefined {
  const named = selections.filter((one) => one.interface === interfaceName);
  const unnamed = isOrdinalPodInterfaceName(interfaceName)
    ? selections.filter((one) => one.interface === undefined)
    : [];
  const candidates = named.length > 0 ? named : unnamed;
  if (candidates.length < 2 || candidates.every(({ claim }) => claim === undefined)) return candidates[0];
  throw refused(
    "several networks of the pod may be this interface's, and one of them refers to a claim",
    where,
    `write "interface" into each network of the annotation ${NETWORKS_ANNOTATION}`,
  );
}

/** The claim that our controller makes for a VM's interface; undefined for other pods, and where it makes none. */
async function managedClaimOf(
  pod: KubeObject,
  { interfaceName, resourceClaim }: AllocationRequest,
  { api, claims, clock }: AgentContext,
  signal: AbortSignal,
): Promise<string | undefined> {
  const launcher: LauncherPod | undefined = parseLauncherPod(pod.metadata);
  if (launcher === undefined || (claims !== "managed" && resourceClaim === undefined)) return undefined;
  const { vmi } = launcher;
  const resource = inNamespace(IPAM_CLAIMS, String(pod.metadata["namespace"]));
  const [label, hash, of] =
    resourceClaim === undefined
      ? [VMI_INTERFACE_LABEL, vmiInterfaceHash(vmi, interfaceName), `interface ${interfaceName}`]
      : [
          VMI_REQUEST_LABEL,
          vmiRequestHash(vmi, resourceClaim),
          `request ${resourceClaim.request} of ResourceClaim ${resourceClaim.claim}`,
        ];
  const where = `VirtualMachineInstance ${resource.namespace}/${vmi}, ${of}`;
  if (claims !== "managed")
    throw refused(
      "no program makes the claims of VMs' networks that are ResourceClaims",
      where,
      "set the chart's ipam.claims.manage, or remove allowPersistentIPs",
    );
  // Kubelet repeats a Prepare only after a minute.
  for (const waitMs of resourceClaim === undefined ? [0] : PREPARE_WAITS_MS) {
    if (waitMs > 0) await clock.sleep(waitMs, signal);
    const { objects } = await api.list(resource, { labelSelector: `${label}=${hash}` }, signal);
    const [found, ...others] = objects;
    if (found !== undefined && others.length === 0) return found.metadata.name;
    const names = objects.map(({ metadata }) => metadata.name).join(", ");
    if (found !== undefined)
      throw refused(`claims ${names} have the same label ${label}`, where, "delete the copies");
  }
  throw missing("the controller has not made the claim of this interface yet", where);
}

function missing(what: string, where: string): Failure {
  const fix = `it is tried again; kubectl get ipamclaims -l ${VM_LABEL} shows claims and their VMs`;
  return new Failure({ code: "ipam-claim-missing", what, where, fix });
}

export function refused(what: string, where: string, fix: string): Failure {
  return new Failure({ code: "ipam-claim-refused", what, where, fix });
}

function podGone(where: string): Failure {
  return new Failure({
    code: "superseded",
    what: "the pod was deleted, or replaced by another one of its name",
    where,
    fix: "nothing; the runtime gives this sandbox up",
  });
}

function switchedOff(): Failure {
  return new Failure({
    code: "unsupported-field",
    what: "allowPersistentIPs: claims are switched off in this cluster",
    where: "network configuration",
    fix: "set the chart's ipam.claims.enabled, or remove the key",
  });
}
