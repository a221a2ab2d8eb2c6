/** Whether a pod is KubeVirt's of a VM, by its name: virt-launcher-<vm>-<five characters>. */
export function isLauncherOf(pod: string, vm: string): boolean {
  const prefix = `virt-launcher-${vm}-`;
  return pod.startsWith(prefix) && /^[a-z0-9]{5}$/.test(pod.slice(prefix.length));
}
