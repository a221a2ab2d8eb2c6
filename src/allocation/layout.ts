// Names and places below the root: the host's side, the pod's side, and what lies in an allocation's directory.
import { join } from "node:path";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { checkUnixPath } from "../names/unix-path.ts";

/** The one file name of a socket in every interface and device directory. */
export const SOCKET_FILE = "vhost.sock";

/** The directory above a pod's own: root's, so that the pod's user can neither add nor swap anything in it. */
export const ALLOCATION_OWNERSHIP: DirectoryOwnership = { owner: 0, group: 0, mode: 0o755 };

/** What an allocation's directory must hold. */
export interface SocketDirectories {
  readonly root: string;
  readonly allocationId: string;
  /** Device ids and interface names; each gets a directory. */
  readonly names: readonly string[];
  readonly ownership: DirectoryOwnership;
}

/** Host directory of one allocation; it is what a container gets mounted. */
export function allocationDirectory(root: string, allocationId: string): string {
  return join(root, allocationId);
}

/** Where a container sees its allocation: the same on every node, or live migration would need a link. */
export function podDirectory(podRoot: string, pool: string): string {
  return join(podRoot, pool);
}

/** Where a container sees the interfaces of a claim, each by a mount of its own; no pool has this directory's name. */
export function claimDirectory(podRoot: string, claim: string): string {
  return join(podRoot, "claims", claim);
}

/**
 * The socket of an interface or device as a process sees it whose view of the allocation is `directory`.
 * @throws Failure when the path is longer than a socket's may be (107 bytes, unix(7))
 */
export function socketPath(directory: string, name: string, where: string): string {
  return checkUnixPath(join(directory, name, SOCKET_FILE), where);
}
