// What every command has: its options, exit codes, and where the daemon's configuration and status are.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { stringify } from "yaml";
import { loadConfig, usableConfig } from "../config/load.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { describeThrown, Failure } from "../failure/failure.ts";
import { agentPlace, cniDraPlace, type ProgramPlace } from "../status/status-client.ts";
import { statusSocket } from "../status/status-source.ts";
import type { Screen } from "./terminal.ts";

/** Exit codes of the program. */
export const EXIT = {
  healthy: 0,
  problem: 1,
  /** Wrong usage, or the daemon cannot be reached. */
  unreachable: 2,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** What `-o` can be; without it a command prints for people. */
export const OUTPUT_FORMATS = ["json", "yaml", "wide"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** What a command works with. */
export interface CommandContext {
  readonly screen: Screen;
  readonly output?: OutputFormat | undefined;
  /** Of the pods that the command is about. */
  readonly namespace?: string | undefined;
  /** Path of the daemon's status socket. @throws Failure `invalid-config` */
  readonly socket: () => Promise<string>;
  /** Where the IPAM agent is. */
  readonly agent: () => Promise<ProgramPlace>;
  /** Where the driver cni-dra is. */
  readonly cniDra: () => Promise<ProgramPlace>;
}

/** A pod by name. */
export interface NamedPod {
  readonly name: string;
  /** Undefined for every namespace. */
  readonly namespace: string | undefined;
}

/** The pod of an argument `name` or `namespace/name`. @throws Failure `invalid-request` */
export function podOf({ namespace }: Pick<CommandContext, "namespace">, argument: string): NamedPod {
  const asked = argument.split("/");
  if (asked.length > 2 || asked.includes("")) {
    const what = `${JSON.stringify(argument)} is not a pod`;
    throw new Failure({ code: "invalid-request", what, fix: "write POD or NAMESPACE/POD" });
  }
  return { name: asked.at(-1) ?? "", namespace: asked.length === 2 ? asked[0] : namespace };
}

/** Prints a value for programs where that is wanted, else a text for people. */
export function print({ screen, output }: CommandContext, value: unknown, text: () => string): void {
  const json = () => JSON.stringify(value, readable, 2);
  if (output === "json") screen.write(`${json()}\n`);
  else screen.write(output === "yaml" ? stringify(JSON.parse(json())) : text());
}

/** Modes in octal, times in ISO 8601; a time of 0 is not known. */
function readable(key: string, value: unknown): unknown {
  if (typeof value !== "number") return value;
  if (key === "mode") return value.toString(8).padStart(4, "0");
  if (key !== "at" && !key.endsWith("At")) return value;
  return value === 0 ? undefined : new Date(value).toISOString();
}

/** Default path of the daemon's configuration. */
export const CONFIG_FILE = "/etc/kube-vhostuser/config.yaml";
/** Default path of the daemon's status socket. */
const STATUS_SOCKET = "/run/kube-vhostuser/status.sock";

/** What the command line says of where things are. */
export interface PlaceOptions {
  readonly socket?: string | undefined;
  readonly config?: string | undefined;
  readonly agentSocket?: string | undefined;
  readonly cniDraSocket?: string | undefined;
  /** Name of this node, for a configuration that names none. */
  readonly node: string;
}

/** The daemon's configuration, and what is wrong with it; no configuration where the file cannot be read. */
export interface FoundConfig {
  readonly config?: DaemonConfig;
  readonly problem?: string;
}

/** Reads the configuration that the daemon reads; of one that is wrong, what is valid. */
export async function findConfig({ config: file = CONFIG_FILE, node }: PlaceOptions): Promise<FoundConfig> {
  try {
    return { config: await loadConfig(file, node) };
  } catch (error) {
    const problem = describeThrown(error);
    const text = await readFile(file, "utf8").catch(() => undefined);
    return text === undefined ? { problem } : { problem, config: usableConfig(text, node) };
  }
}

/**
 * Where the daemon's status is. A node where the program runs outside of the daemon's container may have no
 * configuration file; the usual place will do then, but not for a file that was named.
 * @throws Failure `invalid-config`
 */
export async function findSocket(options: PlaceOptions): Promise<string> {
  if (options.socket !== undefined) return options.socket;
  if (options.config === undefined && !existsSync(CONFIG_FILE)) return STATUS_SOCKET;
  return statusSocket(await loadConfig(options.config ?? CONFIG_FILE, options.node));
}

/** Where the IPAM agent is: beside the daemon's files, also on a node without a configuration that can be read. */
export function findAgent(options: PlaceOptions): Promise<ProgramPlace> {
  return besideDaemon(options, agentPlace, options.agentSocket);
}

/** The same for the driver cni-dra. */
export function findCniDra(options: PlaceOptions): Promise<ProgramPlace> {
  return besideDaemon(options, cniDraPlace, options.cniDraSocket);
}

async function besideDaemon(
  options: PlaceOptions,
  placeOf: (config: DaemonConfig) => ProgramPlace,
  socket: string | undefined,
): Promise<ProgramPlace> {
  const { config = usableConfig("", options.node) } = await findConfig(options);
  const place = placeOf(config);
  return { ...place, statusSocket: socket ?? place.statusSocket };
}
