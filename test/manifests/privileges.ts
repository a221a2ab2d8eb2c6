// biome-ignore-all lint/suspicious/noExplicitAny: pods are what their manifests say

/** Containers of a pod that have a token of the API server: by the pod's default, or by a volume of their own. */
export function tokensOf(pod: any): string[] {
  const containers: any[] = [...(pod.initContainers ?? []), ...pod.containers];
  const names: any[] = containers.map(({ name }) => name);
  if (pod.automountServiceAccountToken !== false) return names;
  const volumes = (pod.volumes ?? [])
    .filter((volume: any) => volume.projected?.sources?.some((source: any) => source.serviceAccountToken))
    .map((volume: any) => volume.name);
  return containers
    .filter(({ volumeMounts }) => volumeMounts?.some(({ name }: any) => volumes.includes(name)))
    .map(({ name }) => name);
}

/** Directories that a container sees, and which of them it may not write. */
export function mountsOf(container: any): { readonly path: string; readonly readOnly: boolean }[] {
  return container.volumeMounts.map((mount: any) => ({
    path: mount.mountPath,
    readOnly: mount.readOnly === true,
  }));
}

/** Whether a directory or something above it is mounted. */
export function isMounted(path: string, mounts: readonly { readonly path: string }[]): boolean {
  return mounts.some((mount) => path === mount.path || path.startsWith(`${mount.path}/`));
}
