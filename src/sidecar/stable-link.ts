import { randomBytes } from "node:crypto";
import { mkdir, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import type { VmiInterface } from "./vmi.ts";

/** A directory that the sidecar and the compute container share, by both its names. */
export interface SharedDirectory {
  readonly here: string;
  readonly inCompute: string;
}

/** An interface whose socket needs a path that a live migration doesn't change. */
type LinkedInterface = Pick<VmiInterface, "name" | "podInterfaceName" | "claim">;

/**
 * The path that goes into the domain XML. libvirt starts the source's XML on the target of a live migration, so the
 * path must mean the right socket in both pods:
 * - a socket whose directory is named after the pod interface has such a path already (constant path), and so has
 *   one whose directories are named after the pod's claim and its request (OVS-DPDK's DRA driver);
 * - any other one is reached through a link to its directory, named after the network alone. It links the
 *   directory because bind(2) doesn't follow a link in the last component.
 *
 * Makes the links, or replaces them; to be called in the target's pod too.
 * @param socketPath the socket as the compute container sees it
 * @param shared the directories that get a link; the path goes through the first. The others are for a VM that comes
 *   from a pod that had not the first one.
 * @throws Failure `directory-unsafe`, `path-too-long`
 */
export async function stableSocketPath(
  one: LinkedInterface,
  socketPath: string,
  shared: readonly [SharedDirectory, ...SharedDirectory[]],
): Promise<string> {
  if (isConstant(one, socketPath)) return socketPath;
  // Not the pod interface's name: that one changes when KubeVirt moves a VM from ordinal to hashed names.
  const link = hashedPodInterfaceName(one.name);
  const path = join(shared[0].inCompute, link, basename(socketPath));
  checkUnixPath(path, `network ${one.name}, its link in the directory shared with compute`);
  for (const { here } of shared) await ensureDirectoryLink(join(here, link), dirname(socketPath));
  return path;
}

/** Whether the socket's directory is named after the interface, or after its claim and request. */
function isConstant({ name, podInterfaceName, claim }: LinkedInterface, socketPath: string): boolean {
  const directory = dirname(socketPath);
  const last = basename(directory);
  if (last === podInterfaceName || last === hashedPodInterfaceName(name)) return true;
  return last === claim?.request && basename(dirname(directory)) === claim.claim;
}

/** Makes `link` point to `target` by a rename: at every moment it leads to the old target or to the new one. */
async function ensureDirectoryLink(link: string, target: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true });
  const fresh = `${link}.${randomBytes(4).toString("hex")}`;
  await symlink(target, fresh);
  try {
    await rename(fresh, link);
  } catch (cause) {
    await rm(fresh, { force: true });
    throw new Failure({
      code: "directory-unsafe",
      what: `the link to the socket's directory cannot be made: ${systemCode(cause) ?? String(cause)}`,
      where: link,
      fix: "remove what is there; nothing but this sidecar may write into this directory",
      cause,
    });
  }
}
