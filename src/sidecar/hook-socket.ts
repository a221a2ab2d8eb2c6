import { createHash } from "node:crypto";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { serveUnix } from "../grpc/unix-server.ts";
import type { ServedService } from "./hook-services.ts";

/** Where a socket goes that virt-launcher looks for. */
export interface HookSocketOptions {
  /** The socket as virt-launcher shall find it. */
  readonly path: string;
  /** Where it is bound before it can answer: on the same file system, and where virt-launcher doesn't look. */
  readonly bindDirectory: string;
  readonly services: readonly ServedService[];
  /** Calls the bound socket once: what virt-launcher's first call runs through is then loaded. */
  readonly tryOut?: (socketPath: string) => Promise<void>;
}

/** A served hook socket. */
export interface HookSocket {
  readonly path: string;
  /** Lets running calls end for `graceMs`, and removes the socket. */
  close(graceMs: number): Promise<void>;
}

/** Sub-directory that virt-launcher does not look into: sockets on their way, and the stable links. */
export const INNER_DIRECTORY = "vhostuser";

/**
 * The place of a hook sidecar's socket. virt-launcher dials every entry of the hooks directory that is no directory,
 * and counts sockets by their base name over all sidecars of the pod.
 * @param directory the hooks directory as the sidecar sees it
 * @param owner unique in the pod: the container's name, else the pod's host name
 */
export function hookSocketPlace(
  directory: string,
  owner: string,
): Pick<HookSocketOptions, "path" | "bindDirectory"> {
  const path = join(directory, `${owner}-vhostuser.sock`);
  return { path, bindDirectory: join(directory, INNER_DIRECTORY) };
}

/** The place of a structured plugin's socket, which has one name and a directory of the plugin's own. */
export function pluginSocketPlace(path: string): Pick<HookSocketOptions, "path" | "bindDirectory"> {
  return { path, bindDirectory: join(dirname(path), INNER_DIRECTORY) };
}

/**
 * Serves on a socket that is bound elsewhere and renamed into place, over one that a killed predecessor left, when it
 * can answer: virt-launcher dials what it sees, and gives Info one second.
 */
export async function serveHookSocket(options: HookSocketOptions): Promise<HookSocket> {
  const { path, bindDirectory, services, tryOut } = options;
  await mkdir(bindDirectory, { recursive: true });
  // A digest, because a pod's host name has up to 63 characters and a socket's path 107. One that a predecessor
  // left behind has the same name, and serveUnix removes it.
  const digest = createHash("sha256").update(path).digest("hex").slice(0, 12);
  const server = await serveUnix({
    socketPath: join(bindDirectory, `bind-${digest}`),
    services,
    // virt-launcher has the pod's group, and in old releases another user.
    mode: 0o660,
  });
  await tryOut?.(server.socketPath);
  await rename(server.socketPath, path);
  return {
    path,
    close: async (graceMs) => {
      await rm(path, { force: true });
      await server.close(graceMs);
    },
  };
}
