import { isAbsolute, normalize } from "node:path";
import { Failure } from "../failure/failure.ts";

/** Bytes that fit into `sun_path` with its closing NUL (unix(7)); OVS, QEMU and libvirt share the limit. */
export const UNIX_PATH_MAX_BYTES = 107;

/**
 * Checks a path of a unix socket: absolute, normal (no `.`/`..`/double slash), short enough, no control
 * characters.
 * @throws Failure `path-too-long` or `directory-unsafe`
 */
export function checkUnixPath(path: string, where: string): string {
  if (!isAbsolute(path) || normalize(path) !== path || path.endsWith("/") || /\p{Cc}/u.test(path)) {
    throw new Failure({
      code: "directory-unsafe",
      what: `socket path ${JSON.stringify(path)} is not an absolute, normal path of printable characters`,
      where,
      fix: "write it in full, without '.', '..' or doubled slashes",
    });
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > UNIX_PATH_MAX_BYTES) {
    throw new Failure({
      code: "path-too-long",
      what: `socket path ${JSON.stringify(path)} has ${bytes} bytes, ${UNIX_PATH_MAX_BYTES} are allowed`,
      where,
      fix: "shorten the root directory, the pool name or the interface name",
    });
  }
  return path;
}

/** Whether `path` is below `root` (both absolute and normal); the root itself does not. */
export function isBelow(path: string, root: string): boolean {
  return path.startsWith(root.endsWith("/") ? root : `${root}/`);
}
