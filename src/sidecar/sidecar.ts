import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describeThrown } from "../failure/failure.ts";
import { serveUnix, type UnixServer } from "../grpc/unix-server.ts";
import type { DefineDomainOptions } from "./define-domain.ts";
import {
  callbacksService,
  domainHookService,
  HOOK_VERSIONS,
  type HookCallbacks,
  infoService,
  type ServedService,
  tryInfo,
} from "./hook-services.ts";

/** Options of {@link startSidecar}; all of them come from the container's environment. */
export interface SidecarOptions extends DefineDomainOptions {
  readonly serves: ServedHook;
  /**
   * Gives unused memory back some time after the last call: virt-launcher calls a sidecar three times in a VM's life,
   * and without this it would keep the memory of those calls until the end.
   */
  readonly collectGarbage?: (() => void) | undefined;
}

/** What virt-launcher calls: the sidecar of a network binding, or of a structured plugin (KubeVirt 1.9). */
export interface ServedHook {
  readonly kind: "hook-sidecar" | "plugin";
  /** The socket where virt-launcher looks for it. */
  readonly socketPath: string;
}

/** Sub-directory that virt-launcher does not look into: sockets that are not ready, and the stable links. */
export const INNER_DIRECTORY = "vhostuser";

/** A running sidecar. */
export interface Sidecar {
  readonly socketPath: string;
  /** Resolves when it has stopped. */
  readonly stopped: Promise<void>;
}

/** Enough to finish an answer, far below the 30 s that a pod has to end. */
const STOP_GRACE_MS = 2_000;

const IDLE_MS = 1_000;
/** Several requests of this size leave more behind than there is memory, until V8 collects by itself. */
const LARGE_BYTES = 500_000;

/** Loaded by the first call: virt-launcher waits one second for Info, and longer for the domain. */
const loadDefinition = () => import("./define-domain.ts");

/** Serves the hook until virt-launcher calls Shutdown or the signal fires, whichever comes first. */
export async function startSidecar(options: SidecarOptions, signal: AbortSignal): Promise<Sidecar> {
  const { logger, serves, binding } = options;
  const shutdown = new AbortController();
  const ending = AbortSignal.any([signal, shutdown.signal]);
  let idle: NodeJS.Timeout | undefined;
  const callbacks: HookCallbacks = {
    defineDomain: async (request, call) => {
      clearTimeout(idle);
      try {
        const { answerDomain } = await loadDefinition();
        return await answerDomain(request, options, {
          ...call,
          signal: AbortSignal.any([call.signal, ending]),
        });
      } catch (error) {
        logger.error({ err: error }, "the domain was not defined");
        throw error;
      } finally {
        clearTimeout(idle);
        const isLarge = request.domainXML.length + request.vmi.length > LARGE_BYTES;
        idle = setTimeout(() => options.collectGarbage?.(), isLarge ? 0 : IDLE_MS).unref();
      }
    },
    shutdown: () => shutdown.abort(new Error("virt-launcher called Shutdown")),
  };
  const isPlugin = serves.kind === "plugin";
  const services = isPlugin
    ? [domainHookService(callbacks)]
    : [infoService(), ...HOOK_VERSIONS.map((version) => callbacksService(version, callbacks))];
  const { socketPath } = serves;
  const server = await serveHook(socketPath, services, isPlugin ? undefined : tryInfo);
  logger.info({ socket: socketPath, binding }, "serving");
  const stop = async () => {
    if (!ending.aborted) await once(ending, "abort");
    logger.info({ reason: describeThrown(ending.reason) }, "stopping");
    await rm(socketPath, { force: true });
    await server.close(STOP_GRACE_MS);
  };
  return { socketPath, stopped: stop() };
}

/**
 * Serves on a socket that is bound elsewhere and renamed into place, over one that a killed predecessor left, when it
 * can answer: virt-launcher dials what it sees, and gives Info one second.
 * @param tryOut calls the bound socket once: what virt-launcher's first call runs through is then loaded
 */
async function serveHook(
  path: string,
  services: readonly ServedService[],
  tryOut: ((socketPath: string) => Promise<void>) | undefined,
): Promise<UnixServer> {
  const directory = join(dirname(path), INNER_DIRECTORY);
  await mkdir(directory, { recursive: true });
  // A digest, because a pod's host name has up to 63 characters and a socket's path 107. One that a predecessor
  // left behind has the same name, and serveUnix removes it.
  const digest = createHash("sha256").update(path).digest("hex").slice(0, 12);
  const server = await serveUnix({
    socketPath: join(directory, `bind-${digest}`),
    services,
    // virt-launcher has the pod's group, and in old releases another user.
    mode: 0o660,
  });
  await tryOut?.(server.socketPath);
  await rename(server.socketPath, path);
  return server;
}
