import { lstat, readdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { checkRoot } from "../../allocation/root-mount.ts";
import { systemCode } from "../../failure/failure.ts";
import { kubeletPaths } from "../../kubelet/paths.ts";
import { plural } from "../../status/words.ts";
import {
  type Finding,
  fine,
  type HostCheck,
  type NodeCheck,
  problem,
  skipped,
  warning,
} from "./node-check.ts";

/** Memory of guests and of the switch: DPDK needs it in hugepages. */
export const hugepagesCheck: HostCheck = async ({ sys }) => {
  const top = join(sys, "kernel/mm/hugepages");
  const sizes = await readdir(top).catch(() => undefined);
  if (sizes === undefined) return [skipped(`${top} is not there`)];
  const pages = await Promise.all(
    sizes.sort().map(async (name) => {
      const read = async (file: string) => Number(await readFile(join(top, name, file), "utf8"));
      const size = name.replace(/^hugepages-/, "");
      return { size, total: await read("nr_hugepages"), free: await read("free_hugepages") };
    }),
  );
  const reserved = pages.filter(({ total }) => total > 0);
  if (reserved.length === 0) {
    return [
      problem(
        "no hugepages are reserved",
        "the switch's DPDK needs some, and VMs that ask for them: hugepagesz=1G hugepages=N on the kernel's command line, or vm.nr_hugepages",
      ),
    ];
  }
  const text = reserved.map(({ size, total, free }) => `${size}: ${free} of ${total} free`).join(", ");
  return reserved.some(({ free }) => free > 0)
    ? [fine(text)]
    : [warning(text, "a VM that asks for hugepages will not start; reserve more")];
};

/** The first kernel with the mount flag nosymfollow. */
const OLDEST_KERNEL = [5, 10] as const;

/** Versions of this program, Node and the kernel. */
export const versionsCheck: HostCheck = async ({ kernel, version }) => {
  const [major = 0, minor = 0] = kernel.split(/[.-]/).map(Number);
  const [oldMajor, oldMinor] = OLDEST_KERNEL;
  const isOld = major < oldMajor || (major === oldMajor && minor < oldMinor);
  return [
    fine(`kube-vhostuser ${version}, Node ${process.versions.node}`),
    isOld
      ? problem(
          `Linux ${kernel}`,
          `mount flag nosymfollow, which keeps pods apart, needs ${OLDEST_KERNEL.join(".")}`,
        )
      : fine(`Linux ${kernel}`),
  ];
};

/** The user of this program: most of what it reads only root may read. */
export const userCheck: HostCheck = async ({ uid }): Promise<readonly Finding[]> =>
  uid === 0
    ? [fine("root")]
    : [warning(`uid ${uid}: what only root may read is not checked`, "run vhostuserctl doctor as root")];

/** The root and how it is mounted. */
export const rootCheck: NodeCheck = async ({ config: { root, rootFileSystem }, host }) => {
  const { allowInsecure } = rootFileSystem;
  const reasons = await checkRoot({ root, allowInsecure, mountInfo: join(host.proc, "self/mountinfo") });
  if (reasons.length === 0) return [fine(`${root} is mounted nosymfollow,nosuid,nodev,noexec,nr_inodes=0`)];
  return [
    warning(
      `${root}: ${reasons.join("; ")}`,
      "rootFileSystem.allowInsecure lets this pass; run dist/mount-root/main.mjs before untrusted pods run here",
    ),
  ];
};

/** The NUMA nodes that pools name: with one that the machine lacks the topology manager admits no pod. */
export const numaCheck: NodeCheck = async ({ config: { pools }, host }) => {
  const top = join(host.sys, "devices/system/node");
  const names = await readdir(top).catch(() => []);
  const nodes = names.flatMap((name) => /^node(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  if (nodes.length === 0) return [skipped(`${top} has no nodes`)];
  const wrong = pools.flatMap(({ name, numaNode }) =>
    typeof numaNode !== "number" || nodes.includes(numaNode)
      ? []
      : [
          problem(
            `pool ${name}: this machine has no NUMA node ${numaNode}`,
            `set pools.<name>.numaNode to auto, none or one of ${nodes.sort().join(", ")}`,
          ),
        ],
  );
  return wrong.length === 0 ? [fine(plural(nodes.length, "node"))] : wrong;
};

/** kubelet's registration and PodResources. */
export const kubeletCheck: NodeCheck = ({ config }) => {
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
};

/** Permission bits of others and the group. */
const NOT_THE_OWNER = 0o077;

/** The socket that the CNI executable talks to. */
export const cniCheck: NodeCheck = async ({ config: { cniSocket } }) => {
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
      `${cniSocket} has owner ${uid} and mode ${(mode & 0o777).toString(8)}: users other than root can attach interfaces`,
      "restart the daemon, which makes it again, and find out what changes it",
    ),
  ];
};

const LIMIT_MS = 2_000;

/** Connects to a unix socket and disconnects. @returns the system's error code; undefined where a process listens */
function whyUnreached(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const end = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(LIMIT_MS, () => end("ETIMEDOUT"));
    socket.once("connect", () => end(undefined));
    socket.on("error", (error) => end(systemCode(error) ?? error.message));
  });
}
