import { join } from "node:path";

/** Sockets of kubelet and its plugins. Directories are mounted whole: a socket file alone dies with a restart. */
export interface KubeletPaths {
  /** Holds kubelet.sock and the plugins' sockets; kubelet deletes every socket in it when it starts. */
  readonly pluginDirectory: string;
  /** The registration service. */
  readonly kubeletSocket: string;
  /** The PodResources service. */
  readonly podResourcesSocket: string;
}

/** From the two paths that the configuration has. */
export function kubeletPaths(places: {
  /** kubelet's plugin directory. */
  readonly devicePlugins: string;
  /** Its PodResources socket. */
  readonly podResources: string;
}): KubeletPaths {
  return {
    pluginDirectory: places.devicePlugins,
    kubeletSocket: join(places.devicePlugins, "kubelet.sock"),
    podResourcesSocket: places.podResources,
  };
}
