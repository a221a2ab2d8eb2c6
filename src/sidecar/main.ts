import { hostname } from "node:os";
import { join } from "node:path";
import { createLogger } from "../logging/logger.ts";
import { startSidecar } from "./sidecar.ts";

/** KubeVirt's fixed path of the hooks directory, in the sidecar and in the compute container. */
const HOOKS_DIRECTORY = "/var/run/kubevirt-hooks";
const PODINFO_FILE = "/etc/podinfo/network-info";

const { env } = process;
const container = env["CONTAINER_NAME"] || undefined;
const hooks = env["VHOSTUSER_HOOKS_DIRECTORY"] || HOOKS_DIRECTORY;
const logger = createLogger({ level: env["VHOSTUSER_LOG_LEVEL"] || "info", program: "sidecar" });

// Before anything else: a first process of a container without a handler doesn't even get SIGTERM.
const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => ending.abort(new Error(`it got ${signal}`)));
}
const options = {
  hooksDirectory: hooks,
  // From KubeVirt 1.6 on a sidecar sees the sub-directory of its name, and is told the name.
  hooksDirectoryInCompute: container === undefined ? HOOKS_DIRECTORY : join(HOOKS_DIRECTORY, container),
  owner: container ?? hostname(),
  binding: env["NETWORK_BINDING_PLUGIN_NAME"] || undefined,
  networkInfoFile: env["VHOSTUSER_NETWORK_INFO_FILE"] || PODINFO_FILE,
  logger,
};
const sidecar = await startSidecar(options, ending.signal);
await sidecar.stopped;
