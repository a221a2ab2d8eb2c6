import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource } from "../kube-api/client.ts";
import type { Look } from "./sightings.ts";

export const NODES: Resource = { group: "", version: "v1", plural: "nodes" };
export const PODS: Resource = { group: "", version: "v1", plural: "pods" };

/** Kubernetes' taint that says that a node's machine is off (KEP-2268). */
const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";

/** What a node's object says of its machine. */
export interface NodeEntry {
  readonly uid: string;
  readonly isOutOfService: boolean;
  /** What pods of the cluster's own network get addresses of on this node. */
  readonly podCidrs: readonly string[];
}

export function nodeEntryOf({ metadata: { uid = "" }, spec }: KubeObject): NodeEntry {
  const { taints = [], podCIDRs: podCidrs = [] } = (spec ?? {}) as {
    readonly taints?: readonly { readonly key?: string }[];
    readonly podCIDRs?: readonly string[];
  };
  return { uid, isOutOfService: taints.some(({ key }) => key === OUT_OF_SERVICE), podCidrs };
}

/**
 * Why the machine that a node's object stood for is off; undefined where it may be on, which a node that is not ready may
 * be. To delete a node, or to taint it as out of service, is to say that the machine is off.
 */
export function whyGone(node: NodeEntry | undefined, uid: string | undefined): string | undefined {
  if (node === undefined) return "it was deleted";
  if (uid !== undefined && node.uid !== uid) return `another node has its name, with uid ${node.uid}`;
  return node.isOutOfService ? "it is tainted as out of service" : undefined;
}

/** The object that the API server has now, past any cache; undefined where it has none. Other failures are thrown. */
export async function readNow(
  api: Pick<KubeApi, "get">,
  resource: Resource,
  name: string,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  try {
    return await api.get(resource, name, signal);
  } catch (error) {
    if (error instanceof ApiFailure && error.problem === "not-found") return undefined;
    throw error;
  }
}

/**
 * Looks whether a node is gone, and which of its pods may have addresses: all that are not in the host's network, in
 * whatever phase. Reads the node before its pods, so that no pod of a node that came back is missed.
 * @param owner the node, with its uid where it is known
 * @throws ApiFailure: then nothing is known
 */
export async function lookAtNode(
  api: Pick<KubeApi, "get" | "list">,
  owner: { readonly name: string; readonly uid: string },
  signal: AbortSignal,
): Promise<Omit<Look, "version"> | undefined> {
  const node = await readNow(api, NODES, owner.name, signal);
  const entry = node && nodeEntryOf(node);
  const finding = whyGone(entry, owner.uid);
  if (finding === undefined) return undefined;
  const selection = { fieldSelector: `spec.nodeName=${owner.name}` };
  const { objects } = await api.list(PODS, selection, signal);
  const holders = objects.filter(isOfPodNetwork).map(({ metadata: { uid = "" } }) => uid);
  return { finding, holders, isReplaced: entry !== undefined && entry.uid !== owner.uid };
}

/** A runtime calls no CNI plugin for a pod in the host's network. */
function isOfPodNetwork({ spec }: KubeObject): boolean {
  return (spec as { readonly hostNetwork?: boolean } | undefined)?.hostNetwork !== true;
}
