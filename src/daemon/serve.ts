import { once } from "node:events";
import { preferLessMemory } from "../command-line/memory-flags.ts";
import { loadConfig } from "../config/load.ts";
import type { ApiServerPlace } from "../kube-api/open-api.ts";
import { createLogger } from "../logging/logger.ts";
import { systemClock } from "../sync/clock.ts";
import { startDaemon } from "./assemble.ts";
import { checkCapabilities } from "./check-start.ts";

/** From the command line and the environment. */
export interface ServeOptions {
  readonly configFile: string;
  readonly logLevel: string;
  readonly version: string;
  /** Name of the node, for a configuration that names none, and the daemon's own pod; where it runs in one. */
  readonly pod: Readonly<Partial<Record<"node" | "namespace" | "name" | "uid", string | undefined>>>;
  readonly apiServer: ApiServerPlace | undefined;
  /** Ends it; the reason is the signal's name. */
  readonly signal: AbortSignal;
}

/** Starts the daemon and serves until the signal fires. @throws what ended the start */
export async function serve(options: ServeOptions): Promise<void> {
  const { configFile, logLevel, version, apiServer, signal } = options;
  const { node, namespace, name, uid: podUid } = options.pod;
  const config = await loadConfig(configFile, node);
  const logger = createLogger({ level: logLevel, program: "kube-vhostuser", node: config.node });
  const ownPod = namespace !== undefined && name !== undefined ? { namespace, name } : undefined;
  await checkCapabilities();
  const daemon = await startDaemon({
    ...{ config, ownPod, podUid, apiServer, version, logger, signal },
    clock: systemClock,
  }).catch((error: unknown) => {
    // A signal that came before the daemon had started is no error.
    if (signal.aborted && error === signal.reason) return undefined;
    throw error;
  });
  if (daemon !== undefined) {
    logger.info({ pools: config.pools.map(({ name }) => name) }, "serving");
    preferLessMemory();
    if (!signal.aborted) await once(signal, "abort");
  }
  logger.info({ signal: signal.reason }, "stopping; pods and ports are not changed");
  await daemon?.close();
}
