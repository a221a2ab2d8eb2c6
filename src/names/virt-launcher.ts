const PREFIX = "virt-launcher-";
/** Kubernetes cuts a `generateName` so that the name has no more characters (k8s.io/apiserver, storage/names). */
const GENERATED_NAME_MAX = 63;

/** Whether a pod is KubeVirt's of a VM, by its name: virt-launcher-<vm>-<five characters>. */
export function isLauncherOf(pod: string, vm: string): boolean {
  const prefix = `${PREFIX}${vm}-`;
  return pod.startsWith(prefix) && /^[a-z0-9]{5}$/.test(pod.slice(prefix.length));
}

/** The VM of a pod of KubeVirt's; undefined for other pods. Of a name of more than 42 characters a part may be missing. */
export function vmOfLauncher(
  pod: string,
): { readonly name: string; readonly isComplete: boolean } | undefined {
  const name = pod.startsWith(PREFIX) ? pod.slice(PREFIX.length).replace(/-?[a-z0-9]{5}$/, "") : "";
  if (name === "" || (!isLauncherOf(pod, name) && pod.length < GENERATED_NAME_MAX)) return undefined;
  return { name, isComplete: pod.length < GENERATED_NAME_MAX };
}
