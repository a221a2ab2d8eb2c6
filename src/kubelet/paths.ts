import { join } from "node:path";

/** Where kubelet and its plugins meet. Directories are mounted whole: a socket file alone dies with a restart. */
export interface KubeletPaths {
  /** Holds kubelet.sock and the plugins' sockets; kubelet deletes every socket in it when it starts. */
  readonly pluginDirectory: string;
  /** The registration service. */
  readonly kubeletSocket: string;
  /** The PodResources service. */
  readonly podResourcesSocket: string;
}

/**
 * The paths below kubelet's root directory.
 * @param root kubelet's `--root-dir`; some distributions move it
 */
export function kubeletPaths(root = "/var/lib/kubelet"): KubeletPaths {
  return {
    pluginDirectory: join(root, "device-plugins"),
    kubeletSocket: join(root, "device-plugins/kubelet.sock"),
    podResourcesSocket: join(root, "pod-resources/kubelet.sock"),
  };
}
