import { Option } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { type ApiProgramOptions, programOf, runProgram, withApiOptions } from "../command-line/program.ts";
import { Failure } from "../failure/failure.ts";
import type { ClaimsMode } from "./agent-context.ts";

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));

interface Options extends ApiProgramOptions {
  readonly state: string;
  readonly socket: string;
  readonly netns: string;
  readonly claims: ClaimsMode;
}

const program = withApiOptions(
  programOf(
    "ipam-agent",
    "The IPAM agent of a node: hands out addresses from the node's blocks until SIGTERM or SIGINT.",
    manifest.version,
  ),
)
  .option("--state <directory>", "where its journal is kept", "/var/lib/kube-vhostuser/ipam")
  .option("--socket <path>", "socket of the executable kube-vhostuser-ipam", "/run/kube-vhostuser/ipam.sock")
  .option("--netns <directory>", "the node's network namespaces", "/run/netns")
  .addOption(
    new Option("--claims <mode>", "networks with allowPersistentIPs: whose IPAMClaims interfaces get")
      .choices(["off", "referenced", "managed"])
      .default("off"),
  )
  .action(async (options: Options) => {
    // Loaded only now: process 1 of a container never gets a signal for which it has no handler yet.
    const { serveAgent } = await import("./serve.ts");
    const { createLogger } = await import("../logging/logger.ts");
    // Lets a signal in that came meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
    if (stop.signal.aborted) return;
    // Set through the downward API.
    const { NODE_NAME: node, POD_UID: podUid } = process.env;
    // Set by kubelet in every container.
    const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
    if (node === undefined || node === "") {
      const what = "NODE_NAME is not set, so the agent does not know whose blocks it hands out";
      throw new Failure({
        code: "invalid-config",
        what,
        where: "environment",
        fix: "set it to the node's name",
      });
    }
    await serveAgent({
      ...{
        node,
        podUid,
        version: manifest.version,
        stateDirectory: options.state,
        socketPath: options.socket,
        netnsDirectory: options.netns,
        claims: options.claims,
      },
      listen: { address: options.observeAddress, port: options.observePort },
      serviceAccountDirectory: options.serviceAccount,
      apiServer: host === undefined ? undefined : { host, port },
      apiServerUrl: options.apiServer,
      logger: createLogger({ level: options.logLevel, program: "ipam-agent", node }),
      signal: stop.signal,
    }).catch((error: unknown) => {
      // A signal that came before the agent had started is no error.
      if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
    });
  });
await runProgram(program);
