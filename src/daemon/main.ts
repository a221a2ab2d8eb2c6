import { parseArgs } from "node:util";
import manifest from "../../package.json" with { type: "json" };
import { toFailure } from "../failure/failure.ts";

const USAGE = `kube-vhostuser node daemon

  --config FILE       configuration (default /etc/kube-vhostuser/config.yaml)
  --log-level LEVEL   trace, debug, info, warn, error (default info)
  --version           print the release
`;

/** Reads the command line, serves until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      config: { type: "string", default: "/etc/kube-vhostuser/config.yaml" },
      "log-level": { type: "string", default: "info" },
      version: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  if (values.version) {
    process.stdout.write(`kube-vhostuser ${manifest.version}\n`);
    return;
  }
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));
  // Loaded only now: process 1 of a container never gets a signal for which it has no handler yet.
  const { serve } = await import("./serve.ts");
  // Lets a signal in that came meanwhile.
  await new Promise((resolve) => setImmediate(resolve));
  if (stop.signal.aborted) return;
  // Set through the downward API; see deploy/manifests/kube-vhostuser.yaml.
  const { NODE_NAME: node, POD_NAMESPACE: namespace, POD_NAME: name } = process.env;
  // Set by kubelet in every container.
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
  await serve({
    configFile: values.config,
    logLevel: values["log-level"],
    version: manifest.version,
    pod: { node, namespace, name },
    apiServer: host === undefined ? undefined : { host, port },
    signal: stop.signal,
  });
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  process.stderr.write(`kube-vhostuser: ${failure.code}: ${failure.message}\n`);
  if (failure.code === "internal" && failure.cause instanceof Error)
    process.stderr.write(`${failure.cause.stack}\n`);
  process.exitCode = 1;
});
