import { lstat } from "node:fs/promises";
import { kubeletPaths } from "../../kubelet/paths.ts";
import { type Finding, fine, type NodeCheck, problem } from "./node-check.ts";
import { whyUnreached } from "./reach-socket.ts";

/** kubelet's registration and PodResources. */
export const kubeletCheck: NodeCheck = {
  name: "kubelet",
  check: ({ config }) => {
    const { kubeletSocket, podResourcesSocket } = kubeletPaths(config.kubelet);
    return Promise.all(
      [
        { path: kubeletSocket, what: "device plugins", key: "kubelet.devicePlugins" },
        { path: podResourcesSocket, what: "PodResources", key: "kubelet.podResources" },
      ].map(async ({ path, what, key }): Promise<Finding> => {
        const reason = await whyUnreached(path);
        if (reason === undefined) return fine(`${what}: ${path}`);
        return problem(
          `${what}: ${path} does not answer (${reason})`,
          `check that kubelet runs, that ${key} is where it has the socket, and that the directory is mounted into the daemon's pod`,
        );
      }),
    );
  },
};

/** Permission bits of others and the group. */
const NOT_THE_OWNER = 0o077;

/** The socket that the CNI executable talks to. */
export const cniCheck: NodeCheck = {
  name: "CNI socket",
  check: async ({ config: { cniSocket } }) => {
    const reason = await whyUnreached(cniSocket);
    if (reason !== undefined) {
      return [
        problem(
          `${cniSocket} does not answer (${reason})`,
          "the daemon does not run on this node; until it does, pods with these networks stay in ContainerCreating",
        ),
      ];
    }
    const { uid, mode } = await lstat(cniSocket);
    if (uid === 0 && (mode & NOT_THE_OWNER) === 0) return [fine(cniSocket)];
    return [
      problem(
        `${cniSocket} has owner ${uid} and mode ${(mode & 0o777).toString(8)}: others than root can attach interfaces`,
        "restart the daemon, which makes it anew; see who changes it",
      ),
    ];
  },
};
