import { randomBytes } from "node:crypto";
import { mkdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { checkUnixPath } from "../names/unix-path.ts";

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
}

/**
 * The path that goes into the domain XML. libvirt starts the source's XML on the target of a live migration, so the
 * path must mean the right socket in both pods:
 * - a socket whose directory is named after the pod interface has such a path already (constant mount);
 * - any other one is reached through a link to its directory, named after the network alone. It links the
 *   directory because bind(2) doesn't follow a link in the last component.
 *
 * Makes the link, or turns an old one; to be called in the target's pod too.
 * @throws Failure `directory-unsafe`, `path-too-long`
 */
export async function stableSocketPath(nic: LinkedInterface, shared: SharedDirectory): Promise<string> {
  const directory = dirname(nic.socketPath);
  // Not the pod interface's name: that one changes when KubeVirt moves a VM from ordinal to hashed names.
  const link = hashedPodInterfaceName(nic.network);
  if ([nic.podInterfaceName, link].includes(basename(directory))) return nic.socketPath;
  const path = join(shared.inCompute, link, basename(nic.socketPath));
  checkUnixPath(path, `network ${nic.network}, its link in the hooks directory`);
  await ensureDirectoryLink(join(shared.here, link), directory);
  return path;
}

/** Makes `link` point to `target`; whoever opens it sees the old target or the new one, never none. */
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
    fix: "remove what stands there; nothing but this sidecar may write into this directory",
    cause,
  });
}
