import { keyHash } from "../address-objects/resources.ts";
import type { Resource } from "../kube-api/client.ts";

export const CLAIM_API_VERSION = "k8s.cni.cncf.io/v1alpha1";

/** Of all namespaces; {@link inNamespace} narrows them to one. */
export const IPAM_CLAIMS: Resource = { group: "k8s.cni.cncf.io", version: "v1alpha1", plural: "ipamclaims" };
export const NADS: Resource = {
  ...{ group: "k8s.cni.cncf.io", version: "v1" },
  plural: "network-attachment-definitions",
};
export const VMS: Resource = { group: "kubevirt.io", version: "v1", plural: "virtualmachines" };
export const VMIS: Resource = { group: "kubevirt.io", version: "v1", plural: "virtualmachineinstances" };

export const RESOURCE_CLAIMS: Resource = {
  ...{ group: "resource.k8s.io", version: "v1" },
  plural: "resourceclaims",
};

/** The same resource in one namespace. */
export function inNamespace(resource: Resource, namespace: string): Resource {
  return { ...resource, namespace };
}

/** Annotation of pods with their networks (multi-network spec 1.3, section 4.1). */
export const NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks";

/** What kubevirt/ipam-extensions writes on the claims that it makes, and we too. */
export const PERSISTENT_IPAM_FINALIZER = "kubevirt.io/persistent-ipam";
/** Label of a claim with the name of its VMI. */
export const VM_LABEL = "kubevirt.io/vm";

/**
 * Label of the claims that our controller makes: {@link vmiInterfaceHash}. By it the agent finds the claim of a launcher
 * pod's interface, of which it knows the VMI, and the network only as KubeVirt's hash in the interface's name.
 */
export const VMI_INTERFACE_LABEL = "ipam.kube-vhostuser.io/vmi-interface";

/** Label of such a claim whose network is a ResourceClaim's: {@link vmiRequestHash}. */
export const VMI_REQUEST_LABEL = "ipam.kube-vhostuser.io/vmi-request";
/** Annotation of such a claim with its pools, which no NetworkAttachmentDefinition has. */
export const POOLS_ANNOTATION = "ipam.kube-vhostuser.io/pools";
/** By these of CNI_ARGS the daemon says whose port it asks addresses for: {@link RequestInPod}. */
export const REQUEST_ARGS = { claim: "RESOURCE_CLAIM", request: "RESOURCE_CLAIM_REQUEST" } as const;

/** A request of a pod's ResourceClaim. */
export interface RequestInPod {
  /** What the pod calls a claim that is made from a template; else the claim's name. */
  readonly claim: string;
  readonly request: string;
}

/** Names of VMIs may be longer than a label's value. @param podInterface `pod` and a hash, as KubeVirt names it */
export function vmiInterfaceHash(vmi: string, podInterface: string): string {
  return keyHash(`${vmi}/${podInterface}`);
}

/** No {@link vmiInterfaceHash} is the same: names of interfaces have no slash. */
export function vmiRequestHash(vmi: string, { claim, request }: RequestInPod): string {
  return keyHash(`${vmi}/${claim}/${request}`);
}
