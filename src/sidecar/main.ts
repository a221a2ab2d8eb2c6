import { hostname } from "node:os";
import manifest from "../../package.json" with { type: "json" };
import { createLogger } from "../logging/logger.ts";
import { readEnvironment } from "./environment.ts";
import { startSidecar } from "./sidecar.ts";

// Alone: KubeVirt's own sidecars are given `--version` with a version of the hooks, and ours may be too.
if (process.argv.slice(2).join(" ") === "--version") {
  process.stdout.write(`kube-vhostuser ${manifest.version}\n`);
  process.exit();
}
const { env } = process;
// There with --expose-gc, which the bundle's first line has.
const { gc } = globalThis;
const collectGarbage = gc === undefined ? undefined : () => void gc({ type: "major", flavor: "last-resort" });
const logger = createLogger({ level: env["VHOSTUSER_LOG_LEVEL"] || "info", program: "sidecar" });

// Before anything else: a first process of a container without a handler doesn't even get SIGTERM.
const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => ending.abort(new Error(`it got ${signal}`)));
}
const options = { ...(await readEnvironment(env, hostname())), logger, collectGarbage };
const sidecar = await startSidecar(options, ending.signal);
await sidecar.stopped;
