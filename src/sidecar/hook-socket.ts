import { createHash } from "node:crypto";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { serveUnix } from "../grpc/unix-server.ts";
import type { ServedService } from "./hooks-v1alpha3.ts";

/** Where the hook socket goes. */
export interface HookSocketOptions {
  /** The hooks directory as the sidecar sees it. */
  readonly directory: string;
  /** What makes the socket's name unique in the pod: the container's name, else the pod's host name. */
  readonly owner: string;
  readonly services: readonly ServedService[];
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
 * Serves the hook socket. virt-launcher dials every entry of the hooks directory that is no directory, and counts
 * sockets by their base name over all sidecars of the pod; so ours is bound in a sub-directory and renamed into
 * place, over one that a killed predecessor left, when it can answer.
 */
export async function serveHookSocket(options: HookSocketOptions): Promise<HookSocket> {
  const inner = join(options.directory, INNER_DIRECTORY);
  await mkdir(inner, { recursive: true });
  // A digest, because a pod's host name has up to 63 characters and a socket's path 107. One that a predecessor
  // left behind has the same name, and serveUnix removes it.
  const digest = createHash("sha256").update(options.owner).digest("hex").slice(0, 12);
  const server = await serveUnix({
    socketPath: join(inner, `bind-${digest}`),
    services: options.services,
    // virt-launcher has the pod's group, and in old releases another user.
    mode: 0o660,
  });
  const path = join(options.directory, `${options.owner}-vhostuser.sock`);
  await rename(server.socketPath, path);
  return {
    path,
    close: async (graceMs) => {
      await rm(path, { force: true });
      await server.close(graceMs);
    },
  };
}
