import { lstat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { METADATA_ROOT } from "./dra-metadata.ts";
import { SOCKET_ROOTS } from "./find-sockets.ts";
import { INNER_DIRECTORY, type ServedHook, type SidecarOptions } from "./sidecar.ts";
import type { SharedDirectory } from "./stable-link.ts";

/** KubeVirt's fixed path of the hooks directory, in the sidecar and in the compute container. */
const HOOKS_DIRECTORY = "/var/run/kubevirt-hooks";
/** Where deploy/kubevirt/shared-links.yaml mounts one emptyDir, in the sidecar and in the compute container. */
const LINKS_DIRECTORY = "/var/run/vhostuser-links";
const PODINFO_FILE = "/etc/podinfo/network-info";

/** Variables of a process. */
type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What a container's environment makes of the sidecar. docs/sidecar-internals.md lists the variables.
 * @param hostName the pod's, unique in the pod where KubeVirt sets no CONTAINER_NAME (before 1.6)
 */
export async function readEnvironment(
  env: Environment,
  hostName: string,
): Promise<Omit<SidecarOptions, "logger">> {
  const container = env["CONTAINER_NAME"] || undefined;
  const directory = env["VHOSTUSER_HOOKS_DIRECTORY"] || HOOKS_DIRECTORY;
  const pluginSocket = env["VHOSTUSER_PLUGIN_SOCKET"] || undefined;
  // virt-launcher dials every entry of the hooks directory that is no directory, and counts sockets by their base name
  // over all sidecars of the pod.
  const serves: ServedHook =
    pluginSocket === undefined
      ? { kind: "hook-sidecar", socketPath: join(directory, `${container ?? hostName}-vhostuser.sock`) }
      : { kind: "plugin", socketPath: pluginSocket };
  const own = ownLinks(serves, container);
  const shared = env["VHOSTUSER_LINKS_DIRECTORY"] || LINKS_DIRECTORY;
  const isMounted = await lstat(shared).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return {
    serves,
    // The one with the most constant path first.
    links: isMounted ? [{ here: shared, inCompute: LINKS_DIRECTORY }, own] : [own],
    binding: env["NETWORK_BINDING_PLUGIN_NAME"] || undefined,
    networkInfo: { file: env["VHOSTUSER_NETWORK_INFO_FILE"] || PODINFO_FILE },
    metadataRoot: env["VHOSTUSER_METADATA_DIRECTORY"] || METADATA_ROOT,
    socketRoots: env["VHOSTUSER_SOCKET_ROOTS"]?.split(":").filter((root) => root !== "") ?? SOCKET_ROOTS,
  };
}

/** The directory of links beside the socket. */
function ownLinks({ kind, socketPath }: ServedHook, container = ""): SharedDirectory {
  const here = join(dirname(socketPath), INNER_DIRECTORY);
  // Compute has all plugins' directories at the same path.
  if (kind === "plugin") return { here, inCompute: here };
  // From KubeVirt 1.6 on a sidecar sees only the sub-directory of its name.
  return { here, inCompute: join(HOOKS_DIRECTORY, container, INNER_DIRECTORY) };
}
