import { hostname } from "node:os";
import manifest from "../../package.json" with { type: "json" };
import { type ApiProgramOptions, programOf, runProgram, withApiOptions } from "../command-line/program.ts";

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));

interface Options extends ApiProgramOptions {
  readonly namespace?: string;
  readonly claims?: boolean;
  readonly clusterApi?: boolean;
  readonly manageClaims?: boolean;
  readonly whereabouts?: string;
}

const program = withApiOptions(
  programOf(
    "ipam-controller",
    "The IPAM controller: reclaims blocks of nodes that are gone, and keeps the pools' status, until SIGTERM or SIGINT.",
    manifest.version,
  ),
)
  .option("--namespace <name>", "namespace of its Lease (default: POD_NAMESPACE, or kube-vhostuser)")
  .option("--claims", "give the IPAMClaims of networks with allowPersistentIPs their addresses")
  .option("--cluster-api", "serve the IPAddressClaims of Cluster API")
  .option(
    "--manage-claims",
    "with --claims: also make the IPAMClaims of VMs, in place of kubevirt/ipam-extensions",
  )
  .option(
    "--whereabouts <namespace>",
    "import addresses from whereabouts, whose objects are in this namespace",
  )
  .action(async (options: Options) => {
    // Loaded only now: process 1 of a container never gets a signal for which it has no handler yet.
    const { serveController } = await import("./serve.ts");
    const { createLogger } = await import("../logging/logger.ts");
    const { systemClock } = await import("../sync/clock.ts");
    // Lets a signal in that came meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
    if (stop.signal.aborted) return;
    // Set through the downward API.
    const { POD_NAMESPACE: podNamespace, POD_NAME: podName } = process.env;
    // Set by kubelet in every container.
    const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
    await serveController({
      namespace: options.namespace ?? podNamespace ?? "kube-vhostuser",
      // A pod keeps its name when its container restarts: it then has its own Lease at once.
      identity: podName ?? `${hostname()}-${process.pid}`,
      listen: { address: options.observeAddress, port: options.observePort },
      serviceAccountDirectory: options.serviceAccount,
      apiServer: host === undefined ? undefined : { host, port },
      apiServerUrl: options.apiServer,
      hasClaims: options.claims ?? false,
      hasClusterApi: options.clusterApi ?? false,
      managesClaims: options.manageClaims ?? false,
      whereabouts: options.whereabouts,
      clock: systemClock,
      logger: createLogger({ level: options.logLevel, program: "ipam-controller" }),
      signal: stop.signal,
    });
  });
await runProgram(program);
