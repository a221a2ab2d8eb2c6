import manifest from "../../package.json" with { type: "json" };
import { type ApiProgramOptions, programOf, runProgram, withApiOptions } from "../command-line/program.ts";
import { Failure } from "../failure/failure.ts";

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));

interface Options extends ApiProgramOptions {
  readonly config: string;
  readonly state: string;
  readonly plugins: string;
  readonly nriSocket: string;
  readonly kubeletDir: string;
  readonly cdi: string;
  readonly ready: string;
  readonly netns: string;
  readonly socket: string;
  readonly events?: true;
}

const program = withApiOptions(
  programOf(
    "cni-dra",
    "The DRA driver whose devices CNI plugins make: runs on each node until SIGTERM or SIGINT.",
    manifest.version,
  ),
)
  .option(
    "--config <file>",
    "what claims may use, and which interfaces are offered",
    "/etc/cni-dra/config.yaml",
  )
  .option("--state <directory>", "where its records are kept", "/var/lib/kube-vhostuser/cni-dra")
  .option("--plugins <directory>", "CNI plugins", "/opt/cni/bin")
  .option("--nri-socket <path>", "the container runtime's NRI socket", "/run/nri/nri.sock")
  .option("--kubelet-dir <directory>", "kubelet's root directory", "/var/lib/kubelet")
  .option("--cdi <directory>", "where CDI files go", "/run/cdi")
  .option("--ready <directory>", "files of interfaces that are there; memory", "/run/kube-vhostuser/cni-dra")
  .option("--netns <directory>", "the node's network namespaces", "/run/netns")
  .option("--socket <path>", "socket for vhostuserctl", "/run/kube-vhostuser/cni-dra-status.sock")
  .option("--events", "post Kubernetes events about pods")
  .action(async (options: Options) => {
    // Loaded only now: process 1 of a container never gets a signal for which it has no handler yet.
    const { serveCniDra } = await import("./serve.ts");
    const { readDriverConfig } = await import("./driver-config.ts");
    const { createLogger } = await import("../logging/logger.ts");
    // Set through the downward API.
    const { NODE_NAME: node, POD_UID: podUid } = process.env;
    // Set by kubelet in every container.
    const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
    if (node === undefined || node === "") {
      throw new Failure({
        code: "invalid-config",
        what: "NODE_NAME is not set, so the driver does not know whose devices it offers",
        where: "environment",
        fix: "set it to the node's name",
      });
    }
    if (stop.signal.aborted) return;
    await serveCniDra({
      ...{ node, podUid, config: readDriverConfig(options.config) },
      ...{ stateDirectory: options.state, pluginDirectory: options.plugins, nriSocket: options.nriSocket },
      kubelet: {
        plugins: `${options.kubeletDir}/plugins`,
        pluginsRegistry: `${options.kubeletDir}/plugins_registry`,
      },
      ...{ cdiDirectory: options.cdi, readyDirectory: options.ready, netnsDirectory: options.netns },
      statusSocket: options.socket,
      listen: { address: options.observeAddress, port: options.observePort },
      events: options.events === true,
      serviceAccountDirectory: options.serviceAccount,
      apiServer: host === undefined ? undefined : { host, port },
      apiServerUrl: options.apiServer,
      logger: createLogger({ level: options.logLevel, program: "cni-dra", node }),
      signal: stop.signal,
    }).catch((error: unknown) => {
      // A signal that came before the driver had started is no error.
      if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
    });
  });
await runProgram(program);
