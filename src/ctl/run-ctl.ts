import { Command, CommanderError, Option } from "commander";
import { describeThrown } from "../failure/failure.ts";
import { printableText } from "../names/printable.ts";
import { runClaimTemplate } from "./claim-template.ts";
import { runCniDraCheck, runCniDraGiveUp, runCniDraList } from "./cni-dra.ts";
import {
  CONFIG_FILE,
  type CommandContext,
  EXIT,
  type ExitCode,
  findAgent,
  findCniDra,
  findSocket,
  OUTPUT_FORMATS,
  type OutputFormat,
  type PlaceOptions,
} from "./command-context.ts";
import { runDoctor } from "./doctor/doctor.ts";
import type { CheckedHost } from "./doctor/node-check.ts";
import { runIpLeaks, runIpOf, runIpPools, runIpWho } from "./ip.ts";
import { runIpWhereabouts, type WhereaboutsOptions } from "./ip-whereabouts.ts";
import { runStatus } from "./status.ts";
import type { Screen } from "./terminal.ts";
import { runTrace } from "./trace.ts";

/** What the program is started with. */
export interface CtlOptions {
  readonly args: readonly string[];
  readonly screen: Screen;
  /** Where errors go. */
  readonly complain: (text: string) => void;
  /** Name of this node, for a configuration that names none. */
  readonly node: string;
  /** Release of this program. */
  readonly version: string;
  /** The machine that doctor checks. */
  readonly host: Omit<CheckedHost, "places" | "version">;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
/** Of help, where the screen is wider. */
const HELP_COLUMNS = 100;

interface CommonValues {
  readonly output?: OutputFormat;
  readonly json?: true;
  readonly namespace?: string;
  readonly socket?: string;
  readonly config?: string;
  readonly agentSocket?: string;
  readonly cniDraSocket?: string;
}

/** Runs one command; an error is printed in one line. @returns the program's exit code */
export async function runCtl(options: CtlOptions): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.healthy;
  const program = commands(options, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...options.args], { from: "user" });
  } catch (error) {
    // Help and version end by an exception too; commander has printed its errors already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.healthy : EXIT.unreachable;
    options.complain(`vhostuserctl: ${printableText(describeThrown(error))}\n`);
    return EXIT.unreachable;
  }
  return exitCode;
}

/** The commands with their options, which may stand before and after the command, and help. */
function commands(options: CtlOptions, end: (code: ExitCode) => void): Command {
  const { screen, complain, node, version, host } = options;
  const helpWidth = Math.min(screen.columns, HELP_COLUMNS);
  const program = new Command("vhostuserctl")
    .description("Shows and checks vhost-user networking on this node.")
    .version(`vhostuserctl ${version}`, "--version", "print the release")
    .addOption(
      new Option(
        "-o, --output <format>",
        "json and yaml have a shape that only grows; wide has more columns",
      ).choices(OUTPUT_FORMATS),
    )
    .option("--json", "the same as -o json")
    .option("-n, --namespace <name>", "only pods of this namespace (status, trace, ip of, cni-dra)")
    .option("--socket <path>", "the daemon's status socket, instead of what --config says")
    .option("--config <file>", `the daemon's configuration (default ${CONFIG_FILE})`)
    .option("--agent-socket <path>", "the IPAM agent's status socket, instead of that beside the CNI socket")
    .option("--cni-dra-socket <path>", "the same of the driver cni-dra")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: screen.write,
      writeErr: complain,
      outputError: (text, write) =>
        write(`vhostuserctl: ${printableText(text.replace(/^error: /, "").trimEnd())}\n`),
      getOutHelpWidth: () => helpWidth,
      getErrHelpWidth: () => helpWidth,
    })
    .addHelpText(
      "after",
      "\nExit codes: 0 healthy, 1 a problem was found and named, 2 wrong usage, or the program asked cannot be reached.",
    )
    .showHelpAfterError()
    .exitOverride();
  const places = (): PlaceOptions => ({ ...program.opts<CommonValues>(), node });
  const context = (): CommandContext => {
    const { output, json, namespace } = program.opts<CommonValues>();
    return {
      screen: output === "wide" ? { ...screen, columns: Number.POSITIVE_INFINITY } : screen,
      output: json === true ? "json" : output,
      namespace,
      socket: () => findSocket(places()),
      agent: () => findAgent(places()),
      cniDra: () => findCniDra(places()),
    };
  };
  const command = (name: string, description: string, parent = program) =>
    parent.command(name).description(description).allowExcessArguments(false);
  command(
    "status",
    "Show every interface of the node, its pools, and what is wrong. An interface that waits for its guest is not a problem here.",
  ).action(async () => end(await runStatus(context())));
  command(
    "trace",
    "Follow each interface of a pod, or of a VirtualMachine's pod, step by step from kubelet to the guest's queues; stops at the first broken link and names its cause and cure.",
  )
    .argument("<[namespace/]pod>")
    .option("-i, --interface <name>", "only this interface or device of the pod")
    .action(async (pod: string, own: { readonly interface?: string }) =>
      end(await runTrace(context(), { pod, interface: own.interface })),
    );
  command(
    "doctor",
    "Check the node: configuration, root, kubelet, daemon, records, hugepages, switches, permissions, SELinux, leftovers. Needs no daemon, changes nothing.",
  ).action(async () => end(await runDoctor(context(), { ...host, places: places(), version })));
  command(
    "claim-template",
    "Print a ResourceClaimTemplate for the network of a file: a NetworkAttachmentDefinition or a CNI configuration, in YAML or JSON; - for standard input. Needs no daemon.",
  )
    .argument("<file>")
    .option("--if-name <name>", "the interface's name", "net1")
    .action((file: string, { ifName }: { readonly ifName: string }) =>
      end(runClaimTemplate(context(), file, { ifName, complain })),
    );
  const ip = command("ip", "Show what the IPAM agent of this node knows of addresses.");
  command("who", "Show which pod has an address; for another node's, which node or allocation.", ip)
    .argument("<address>")
    .option("--space <name>", "only in this AddressSpace")
    .action(async (address: string, own: { readonly space?: string }) =>
      end(await runIpWho(context(), address, own.space)),
    );
  command("of", "Show the addresses of a pod, or of a VirtualMachine's pod, of this node.", ip)
    .argument("<[namespace/]pod>")
    .action(async (pod: string) => end(await runIpOf(context(), pod)));
  command("pools", "Show how full the pools are, on this node and in the cluster.", ip).action(async () =>
    end(await runIpPools(context())),
  );
  command("leaks", "Show addresses without a running pod, and why they are still held.", ip).action(
    async () => end(await runIpLeaks(context())),
  );
  command(
    "whereabouts",
    "Show what is left of whereabouts in the cluster, and whether it can be removed. Run it in a pod of the IPAM controller.",
    ip,
  )
    .option("--whereabouts-namespace <name>", "namespace of its objects", "kube-system")
    .option("--service-account <directory>", "token and ca.crt", SERVICE_ACCOUNT)
    .option("--api-server <url>", "in place of the cluster's own address of the API server")
    .action(async (own: WhereaboutsOptions) => end(await runIpWhereabouts(context(), own, host.apiServer)));
  const cniDra = command("cni-dra", "Show and check the interfaces of claims that CNI plugins make.");
  command("list", "Show the interfaces of this node, and DELs that fail.", cniDra).action(async () =>
    end(await runCniDraList(context())),
  );
  command("check", "Run CHECK of the plugins of a pod's interfaces.", cniDra)
    .argument("<[namespace/]pod>")
    .action(async (pod: string) => end(await runCniDraCheck(context(), pod)));
  command(
    "give-up",
    "Give up the DEL of a pod's interface that keeps failing: it is not tried again, and what plugins keep of the interface may be left behind.",
    cniDra,
  )
    .argument("<namespace/pod>")
    .argument("<interface>")
    .action(async (pod: string, ifName: string) => end(await runCniDraGiveUp(context(), pod, ifName)));
  return program;
}
