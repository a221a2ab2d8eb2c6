import { once } from "node:events";
import { loadConfig } from "../config/load.ts";
import { createLogger } from "../logging/logger.ts";
import type { ApiServerPlace } from "../observe/events/start-events.ts";
import { systemClock } from "../sync/clock.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "./assemble.ts";
import { checkCapabilities } from "./check-capabilities.ts";

/** What the command line and the environment say. */
export interface ServeOptions {
  readonly configFile: string;
  readonly logLevel: string;
  readonly version: string;
  /** Name of the node, for a configuration that names none, and the daemon's own pod; where it runs in one. */
  readonly pod: Readonly<Partial<Record<"node" | "namespace" | "name", string | undefined>>>;
  /** Where the cluster says that its API server is, where it does. */
  readonly apiServer: ApiServerPlace | undefined;
  /** Ends it; the reason is the signal's name. */
  readonly signal: AbortSignal;
}

/** Starts the daemon and serves until told to stop; what it throws has ended the start. */
export async function serve(options: ServeOptions): Promise<void> {
  const { configFile: path, logLevel, version, signal } = options;
  const { apiServer } = options;
  const { node, namespace, name } = options.pod;
  const logger = createLogger({ level: logLevel, program: "kube-vhostuser" });
  const config = await loadConfig(path, node);
  const ownPod = namespace !== undefined && name !== undefined ? { namespace, name } : undefined;
  await checkCapabilities();
  const daemon = await startUnlessStopped({
    ...{ config, ownPod, apiServer, version, logger, signal },
    clock: systemClock,
  });
  if (daemon !== undefined) {
    logger.info({ node: config.node, pools: config.pools.map(({ name }) => name) }, "serving");
    if (!signal.aborted) await once(signal, "abort");
  }
  logger.info({ signal: signal.reason }, "stopping; pods and ports stay as they are");
  await daemon?.close();
}

/** Undefined where the signal came before the daemon had started. */
async function startUnlessStopped(options: DaemonOptions): Promise<Daemon | undefined> {
  try {
    return await startDaemon(options);
  } catch (error) {
    if (options.signal.aborted && error === options.signal.reason) return undefined;
    throw error;
  }
}
