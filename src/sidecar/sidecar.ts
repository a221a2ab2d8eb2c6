import { once } from "node:events";
import { describeThrown } from "../failure/failure.ts";
import { answerDomain, type DomainHookOptions } from "./domain-hook.ts";
import {
  callbacksService,
  domainHookService,
  HOOK_VERSIONS,
  type HookCallbacks,
  infoService,
  tryInfo,
} from "./hook-services.ts";
import { type HookSocket, hookSocketPlace, pluginSocketPlace, serveHookSocket } from "./hook-socket.ts";

/** Options of {@link startSidecar}; all of them come from the container's environment. */
export interface SidecarOptions extends DomainHookOptions {
  readonly serves: ServedHook;
  /**
   * Gives unused memory back some time after the last call: virt-launcher calls a sidecar three times in a VM's life,
   * and without this it would keep the memory of those calls until the end.
   */
  readonly collectGarbage?: (() => void) | undefined;
}

/** What virt-launcher calls: the sidecar of a network binding, or of a structured plugin (KubeVirt 1.9). */
export type ServedHook =
  /** `owner` is unique in the pod. */
  | { readonly kind: "hook-sidecar"; readonly directory: string; readonly owner: string }
  | { readonly kind: "plugin"; readonly socket: string };

/** A running sidecar. */
export interface Sidecar {
  readonly socketPath: string;
  /** Resolves when it has stopped. */
  readonly stopped: Promise<void>;
}

/** Enough to finish an answer, far below the 30 s that a pod has to end. */
const STOP_GRACE_MS = 2_000;

const IDLE_MS = 1_000;

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
        return await answerDomain(request, options, {
          ...call,
          signal: AbortSignal.any([call.signal, ending]),
        });
      } catch (error) {
        logger.error({ err: error }, "the domain was not defined");
        throw error;
      } finally {
        clearTimeout(idle);
        idle = setTimeout(() => options.collectGarbage?.(), IDLE_MS).unref();
      }
    },
    shutdown: () => shutdown.abort(new Error("virt-launcher called Shutdown")),
  };
  const socket = await serveHookSocket(
    serves.kind === "plugin"
      ? { ...pluginSocketPlace(serves.socket), services: [domainHookService(callbacks)] }
      : {
          ...hookSocketPlace(serves.directory, serves.owner),
          services: [infoService(), ...HOOK_VERSIONS.map((version) => callbacksService(version, callbacks))],
          tryOut: tryInfo,
        },
  );
  logger.info({ socket: socket.path, binding }, "serving");
  return { socketPath: socket.path, stopped: closeOn(ending, socket, options) };
}

async function closeOn(
  ending: AbortSignal,
  socket: HookSocket,
  { logger }: Pick<SidecarOptions, "logger">,
): Promise<void> {
  if (!ending.aborted) await once(ending, "abort");
  logger.info({ reason: describeThrown(ending.reason) }, "stopping");
  await socket.close(STOP_GRACE_MS);
}
