import { randomBytes } from "node:crypto";
import { mkdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import type { ClaimRequest } from "./dra-metadata.ts";

/** A directory that the sidecar and the compute container share, by both its names. */
export interface SharedDirectory {
  readonly here: string;
  readonly inCompute: string;
}

/** The interface whose socket needs a path that a live migration doesn't change. */
export interface LinkedInterface {
  readonly network: string;
  readonly podInterfaceName: string;
  /** The socket as the compute container sees it. */
  readonly socketPath: string;
  /** The DRA claim that the socket belongs to. */
  readonly claim?: Pick<ClaimRequest, "claim" | "request"> | undefined;
}

/**
 * The path that goes into the domain XML. libvirt starts the source's XML on the target of a live migration, so the
 * path must mean the right socket in both pods:
 * - a socket whose directory is named after the pod interface has such a path already (constant mount), and so has
 *   one whose directories are named after the pod's claim and its request (OVS-DPDK's DRA driver);
 * - any other one is reached through a link to its directory, named after the network alone. It links the
 *   directory because bind(2) doesn't follow a link in the last component.
 *
 * Makes the links, or replaces them; to be called in the target's pod too.
 * @param shared the directories that get a link; the path goes through the first. The others are for a VM that comes
 *   from a pod that had not the first one.
 * @throws Failure `directory-unsafe`, `path-too-long`
 */
export async function stableSocketPath(
  nic: LinkedInterface,
  shared: readonly [SharedDirectory, ...SharedDirectory[]],
): Promise<string> {
  if (isNamedAfterInterface(nic) || isNamedAfterClaim(nic)) return nic.socketPath;
  // Not the pod interface's name: that one changes when KubeVirt moves a VM from ordinal to hashed names.
  const link = hashedPodInterfaceName(nic.network);
  const path = join(shared[0].inCompute, link, basename(nic.socketPath));
  checkUnixPath(path, `network ${nic.network}, its link in the directory shared with compute`);
  for (const { here } of shared) await ensureDirectoryLink(join(here, link), dirname(nic.socketPath));
  return path;
}

function isNamedAfterInterface({ network, podInterfaceName, socketPath }: LinkedInterface): boolean {
  return [podInterfaceName, hashedPodInterfaceName(network)].includes(basename(dirname(socketPath)));
}

function isNamedAfterClaim({ socketPath, claim }: LinkedInterface): boolean {
  const directory = dirname(socketPath);
  return basename(directory) === claim?.request && basename(dirname(directory)) === claim.claim;
}

/** Makes `link` point to `target` by a rename: at every moment it leads to the old target or to the new one. */
async function ensureDirectoryLink(link: string, target: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true });
  if ((await linkTarget(link)) === target) return;
  const fresh = `${link}.${randomBytes(4).toString("hex")}`;
  await symlink(target, fresh);
  try {
    await rename(fresh, link);
  } catch (error) {
    await rm(fresh, { force: true });
    throw notALink(link, error);
  }
}

async function linkTarget(link: string): Promise<string | undefined> {
  try {
    return await readlink(link);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw notALink(link, error);
  }
}

function notALink(link: string, cause: unknown): Failure {
  return new Failure({
    code: "directory-unsafe",
    what: `the link to the socket's directory cannot be made: ${systemCode(cause) ?? String(cause)}`,
    where: link,
    fix: "remove what is there; nothing but this sidecar may write into this directory",
    cause,
  });
}
