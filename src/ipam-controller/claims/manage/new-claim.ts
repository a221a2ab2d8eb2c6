import { claimName } from "../../../claims/claim-name.ts";
import {
  CLAIM_API_VERSION,
  PERSISTENT_IPAM_FINALIZER,
  POOLS_ANNOTATION,
  VM_LABEL,
  VMI_INTERFACE_LABEL,
  VMI_REQUEST_LABEL,
  vmiInterfaceHash,
  vmiRequestHash,
} from "../../../claims/resources.ts";
import type { KubeObject } from "../../../kube-api/client.ts";
import { hashedPodInterfaceName } from "../../../names/interface-name.ts";
import { present } from "../../../names/present.ts";
import type { ClaimedNetwork } from "./vm-networks.ts";
import type { VmNetwork } from "./vms-view.ts";

/** What a VM's claim is found by, and what of it is nowhere else. */
export interface ClaimMarks {
  readonly interfaceHash: string;
  /** Undefined for a network that is no ResourceClaim's, as are the pools. */
  readonly requestHash: string | undefined;
  readonly pools: readonly string[] | undefined;
}

export function marksOf(vm: string, { name, source }: VmNetwork, { pools }: ClaimedNetwork): ClaimMarks {
  const requestHash = typeof source === "string" ? undefined : vmiRequestHash(vm, source);
  return { interfaceHash: vmiInterfaceHash(vm, hashedPodInterfaceName(name)), requestHash, pools };
}

/** Labels and annotations with the marks in place of those of before. */
export function marked(
  { interfaceHash, requestHash, pools }: ClaimMarks,
  before: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  },
): { readonly labels: object; readonly annotations: object } {
  const own = { [VMI_INTERFACE_LABEL]: interfaceHash, [VMI_REQUEST_LABEL]: requestHash };
  return {
    labels: present({ ...before.labels, ...own }),
    annotations: present({ ...before.annotations, [POOLS_ANNOTATION]: pools?.join() }),
  };
}

/** The claim of a VM's network, as kubevirt/ipam-extensions makes it, with our marks. */
export function newClaim(
  {
    namespace,
    vm,
    network,
  }: { readonly namespace: string; readonly vm: string; readonly network: VmNetwork },
  claimed: ClaimedNetwork,
  owner: { readonly kind: string; readonly uid: string },
): KubeObject {
  return {
    ...{ apiVersion: CLAIM_API_VERSION, kind: "IPAMClaim" },
    metadata: {
      ...{ name: claimName(vm, network.name), namespace },
      ...marked(marksOf(vm, network, claimed), { labels: { [VM_LABEL]: vm } }),
      ownerReferences: [
        { ...owner, apiVersion: "kubevirt.io/v1", name: vm, controller: true, blockOwnerDeletion: true },
      ],
      finalizers: [PERSISTENT_IPAM_FINALIZER],
    },
    spec: { network: claimed.name, interface: "" },
  };
}
