import { once } from "node:events";
import { join } from "node:path";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { answerDomain, type DomainHookOptions } from "./domain-hook.ts";
import { type HookSocket, INNER_DIRECTORY, serveHookSocket } from "./hook-socket.ts";
import { infoService } from "./hooks-info.ts";
import { callbacksV1alpha3 } from "./hooks-v1alpha3.ts";

/** What {@link startSidecar} needs; all of it comes from the container's environment. */
export interface SidecarOptions {
  readonly hooksDirectory: string;
  /** The same directory as the compute container sees it. */
  readonly hooksDirectoryInCompute: string;
  /** Unique in the pod. */
  readonly owner: string;
  readonly binding: string | undefined;
  readonly networkInfoFile: string;
  readonly logger: Logger;
}

/** A running sidecar. */
export interface Sidecar {
  readonly socketPath: string;
  /** Resolves when nothing of it runs any more. */
  readonly stopped: Promise<void>;
}

/** Long enough for an answer on its way, far below the 30 s that a pod has to end. */
const STOP_GRACE_MS = 2_000;

/** Serves the hook socket until virt-launcher calls Shutdown or the signal fires, whichever comes first. */
export async function startSidecar(options: SidecarOptions, signal: AbortSignal): Promise<Sidecar> {
  const { logger } = options;
  const shutdown = new AbortController();
  const ending = AbortSignal.any([signal, shutdown.signal]);
  const hook: DomainHookOptions = {
    binding: options.binding,
    links: {
      here: join(options.hooksDirectory, INNER_DIRECTORY),
      inCompute: join(options.hooksDirectoryInCompute, INNER_DIRECTORY),
    },
    networkInfo: { file: options.networkInfoFile },
    logger,
  };
  const callbacks = callbacksV1alpha3({
    defineDomain: async (request, caller) => {
      try {
        return await answerDomain(request, hook, AbortSignal.any([caller, ending]));
      } catch (error) {
        logger.error({ err: error }, "OnDefineDomain failed");
        throw error;
      }
    },
    shutdown: () => shutdown.abort(new Error("virt-launcher said that the VM is gone")),
  });
  const socket = await serveHookSocket({
    directory: options.hooksDirectory,
    owner: options.owner,
    services: [infoService(), callbacks],
  });
  logger.info({ socket: socket.path, binding: options.binding }, "serving");
  return { socketPath: socket.path, stopped: closeOn(ending, socket, logger) };
}

async function closeOn(ending: AbortSignal, socket: HookSocket, logger: Logger): Promise<void> {
  if (!ending.aborted) await once(ending, "abort");
  logger.info({ reason: describeThrown(ending.reason) }, "stopping");
  await socket.close(STOP_GRACE_MS);
}
