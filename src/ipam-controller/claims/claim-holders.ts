import * as z from "zod";
import { type Address, parseAddress } from "../../addresses/address.ts";
import { claimName } from "../../claims/claim-name.ts";
import { parseLauncherPod } from "../../claims/launcher-pod.ts";
import { type NetworkSelection, parseNetworkSelection } from "../../claims/network-selection.ts";
import { NETWORKS_ANNOTATION } from "../../claims/resources.ts";
import type { KubeObject } from "../../kube-api/client.ts";
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

/**
 * Whether a pod of the claim's namespace, in whatever phase, may have an address by a claim. It may where Multus says so, and
 * where it uses a claim of this name and Multus does not say yet which addresses it has. A pod of a later claim of the
 * same name has other addresses.
 */
export function mayHold(pod: KubeObject, claim: string, address: Address): boolean {
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
  return isLauncherFor(pod, claim) && (secondary === undefined || secondary.length < selections.length);
}

/** A launcher pod without a reference: our agent knows the claim by the VM's name. */
function isLauncherFor({ metadata }: KubeObject, claim: string): boolean {
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
