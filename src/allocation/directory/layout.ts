import { join } from "node:path";
import { checkUnixPath } from "../../names/unix-path.ts";

/** The one file name of a socket in every interface and device directory. */
export const SOCKET_FILE = "vhost.sock";

/** Host directory of one allocation; it is what a container gets mounted. */
export function allocationDirectory(root: string, allocationId: string): string {
  return join(root, allocationId);
}

/** Where a container sees its allocation: the same on every node, or live migration would need a link. */
export function podDirectory(podRoot: string, pool: string): string {
  return join(podRoot, pool);
}

/** The socket of an interface or device as a process sees it whose view of the allocation is `directory`. */
export function socketPath(directory: string, name: string, where: string): string {
  return checkUnixPath(join(directory, name, SOCKET_FILE), where);
}
