import { Option } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { programOf, runProgram } from "../command-line/program.ts";

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));

const program = programOf(
  "kube-vhostuser",
  "The node daemon: serves until SIGTERM or SIGINT.",
  manifest.version,
)
  .option("--config <file>", "configuration", "/etc/kube-vhostuser/config.yaml")
  .addOption(
    new Option("--log-level <level>", "how much is logged")
      .choices(["trace", "debug", "info", "warn", "error"])
      .default("info"),
  )
  .action(
    async ({ config: configFile, logLevel }: { readonly config: string; readonly logLevel: string }) => {
      // Loaded only now: process 1 of a container never gets a signal for which it has no handler yet.
      const { serve } = await import("./serve.ts");
      // Lets a signal in that came meanwhile.
      await new Promise((resolve) => setImmediate(resolve));
      if (stop.signal.aborted) return;
      // Set through the downward API; see deploy/manifests/kube-vhostuser.yaml.
      const { NODE_NAME: node, POD_NAMESPACE: namespace, POD_NAME: name, POD_UID: uid } = process.env;
      // Set by kubelet in every container.
      const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
      await serve({
        ...{ configFile, logLevel },
        version: manifest.version,
        pod: { node, namespace, name, uid },
        apiServer: host === undefined ? undefined : { host, port },
        signal: stop.signal,
      });
    },
  );
await runProgram(program);
