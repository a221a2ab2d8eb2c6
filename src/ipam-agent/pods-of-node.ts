import * as z from "zod";
import type { Resource } from "../kube-api/client.ts";
import type { AgentContext } from "./agent-context.ts";

export const PODS: Resource = { group: "", version: "v1", plural: "pods" };
/** UID of a static pod, which its mirror in the API has beside its own. */
const STATIC_UID = "kubernetes.io/config.hash";

const podSchema = z.looseObject({
  metadata: z.looseObject({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: z.looseObject({ hostNetwork: z.boolean().optional() }).optional(),
});

/** A pod's UID as the runtime names it in CNI_ARGS. @throws a ZodError */
export function podUidOf(pod: unknown): string {
  const { uid, annotations } = podSchema.parse(pod).metadata;
  return annotations?.[STATIC_UID] ?? uid;
}

/** A pod that may have addresses. */
export interface NodePod {
  readonly namespace: string;
  readonly name: string;
  /** As the runtime names it in CNI_ARGS. */
  readonly uid: string;
}

/**
 * The pods of this node as the API server has them now, but for those of the host's network and the agent's own.
 * @throws ApiFailure; a ZodError for a pod that cannot be read: a list without one must not look like one where it is gone
 */
export async function listPodsOfNode(
  context: Pick<AgentContext, "api" | "node" | "ownPodUid">,
  signal: AbortSignal,
): Promise<readonly NodePod[]> {
  const { api, node, ownPodUid } = context;
  const { objects } = await api.list(PODS, { fieldSelector: `spec.nodeName=${node}` }, signal);
  return objects
    .map((object) => podSchema.parse(object))
    .filter(({ metadata, spec }) => spec?.hostNetwork !== true && metadata.uid !== ownPodUid)
    .map((pod) => {
      const { namespace, name } = pod.metadata;
      return { namespace, name, uid: podUidOf(pod) };
    });
}

/**
 * What may have addresses that a lost or damaged journal had: UIDs of the node's pods, and paths of network namespaces that
 * the journal does not know. What is listed later than at the start has ended meanwhile, or is in that list too.
 */
export async function listSurvivors(context: AgentContext, signal: AbortSignal): Promise<string[]> {
  // First: a pod that is deleted meanwhile is in the later list, or its network namespace is in this one.
  const known = new Set([...context.state.allocations.values()].map(({ netns }) => netns));
  const namespaces = await context.listNetns();
  const pods = await listPodsOfNode(context, signal);
  return [...pods.map(({ uid }) => uid), ...namespaces.filter((path) => !known.has(path))];
}
