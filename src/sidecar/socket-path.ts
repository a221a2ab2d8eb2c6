import { Failure } from "../failure/failure.ts";
import { checkUnixPath, isBelow } from "../names/unix-path.ts";

/** Where the compute container has directories of device plugins and drivers. */
export const SOCKET_ROOTS: readonly string[] = ["/var/run", "/run", "/var/lib"];

/** Directories of compute's own: a NIC's socket there could replace another program's. */
const RESERVED: readonly string[] = ["kubevirt", "libvirt", "kubernetes.io", "secrets", "lock"];

/**
 * Checks the path of a socket that a program outside of the pod wrote.
 * @throws Failure `directory-unsafe`, `path-too-long`
 */
export function checkSocketPath(path: string, roots: readonly string[], where: string): string {
  checkUnixPath(path, where);
  const reserved = RESERVED.flatMap((name) => ["/var/run/", "/run/", "/var/lib/"].map((root) => root + name));
  // `kubevirt` stands for kubevirt-private, kubevirt-hooks and their like.
  const isReserved = reserved.some((start) =>
    start.endsWith("kubevirt") ? path.startsWith(start) : isBelow(path, start),
  );
  if (!isReserved && roots.some((root) => isBelow(path, root))) return path;
  throw new Failure({
    code: "directory-unsafe",
    what: `socket path ${JSON.stringify(path)} is ${isReserved ? "in a directory of KubeVirt's own" : `not below ${roots.join(", ")}`}`,
    where,
    fix: "let the device plugin or driver mount its sockets elsewhere, or set VHOSTUSER_SOCKET_ROOTS in the sidecar's image",
  });
}
