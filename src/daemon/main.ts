import { once } from "node:events";
import { parseArgs } from "node:util";
import manifest from "../../package.json" with { type: "json" };
import { systemClock } from "../clock/clock.ts";
import { loadConfig, parseConfig } from "../config/load.ts";
import { toFailure } from "../failure/failure.ts";
import { createLogger } from "../logging/logger.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "./assemble.ts";
import { checkCapabilities } from "./check-capabilities.ts";

const USAGE = `kube-vhostuser node daemon

  --config FILE       configuration (default /etc/kube-vhostuser/config.yaml)
  --log-level LEVEL   trace, debug, info, warn, error (default info)
`;

/** Reads the command line, serves until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      config: { type: "string", default: "/etc/kube-vhostuser/config.yaml" },
      "log-level": { type: "string", default: "info" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const logger = createLogger({ level: values["log-level"], program: "kube-vhostuser" });
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));
  // Set through the downward API; see deploy/daemonset.yaml.
  const { NODE_NAME: node, POD_NAMESPACE: namespace, POD_NAME: name } = process.env;
  const path = values.config;
  const config = await loadConfig(path, node);
  const configFile = { path, parse: (text: string) => parseConfig(text, path, node) };
  const ownPod = namespace !== undefined && name !== undefined ? { namespace, name } : undefined;
  await checkCapabilities();
  const options = { config, configFile, ownPod, version: manifest.version, logger, clock: systemClock };
  const daemon = await startUnlessStopped({ ...options, signal: stop.signal });
  if (daemon !== undefined) {
    logger.info({ node: config.node, pools: config.pools.map(({ name }) => name) }, "serving");
    if (!stop.signal.aborted) await once(stop.signal, "abort");
  }
  logger.info({ signal: stop.signal.reason }, "stopping; pods and ports stay as they are");
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

main().catch((error: unknown) => {
  const failure = toFailure(error);
  process.stderr.write(`kube-vhostuser: ${failure.code}: ${failure.message}\n`);
  if (failure.code === "internal" && failure.cause instanceof Error)
    process.stderr.write(`${failure.cause.stack}\n`);
  process.exitCode = 1;
});
