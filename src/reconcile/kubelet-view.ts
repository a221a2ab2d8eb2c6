import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";

/** Names a pod. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

/** An answer of PodResources, in the form in which it is queried. */
export interface KubeletView {
  /** `<namespace>/<name>` of every pod. */
  readonly pods: ReadonlySet<string>;
  /** {@link holdKey} of every device that a container holds, of whatever resource. */
  readonly held: ReadonlySet<string>;
  /** `<namespace>/<name>` of every ResourceClaim that a container refers to. */
  readonly claims: ReadonlySet<string>;
}

/** A device within its resource; ids alone are unique in one resource only. */
export function holdKey(resource: string, device: string): string {
  return `${resource} ${device}`;
}

/** Parses an answer of PodResources. */
export function kubeletView(pods: readonly PodDevices[]): KubeletView {
  return {
    pods: new Set(pods.map(({ podNamespace, podName }) => `${podNamespace}/${podName}`)),
    held: new Set(
      pods.flatMap(devicesOfPod).flatMap(({ resource, ids }) => ids.map((id) => holdKey(resource, id))),
    ),
    claims: new Set(pods.flatMap(({ containers }) => containers).flatMap(({ claims = [] }) => claims)),
  };
}

/**
 * Why an answer must not be used, or undefined. Kubelet answers before it knows its pods (after a restart, or while
 * the API server is unreachable), and then the list is short or empty without being an error. Our own pod runs as long
 * as we ask, so a complete list has it.
 */
export function whyIncomplete(view: KubeletView, ownPod: PodName | undefined): string | undefined {
  if (ownPod === undefined) {
    return view.pods.size === 0
      ? "it lists no pod at all, and which pod is the daemon's own is not known"
      : undefined;
  }
  const own = `${ownPod.namespace}/${ownPod.name}`;
  return view.pods.has(own) ? undefined : `it does not list the daemon's own pod ${own}`;
}
