// What every command has: its options, exit codes, and where the daemon's configuration and status are.
import { existsSync } from "node:fs";
import { loadConfig } from "../config/load.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { toFailure } from "../failure/failure.ts";
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

/** What a command works with. */
export interface CommandContext {
  readonly screen: Screen;
  /** Whether to print JSON. */
  readonly json: boolean;
  /** Path of the daemon's status socket. @throws Failure `invalid-config` */
  readonly socket: () => Promise<string>;
}

/** Prints a value for --json, indented. */
export function printJson({ screen }: Pick<CommandContext, "screen">, value: unknown): void {
  screen.write(`${JSON.stringify(value, undefined, 2)}\n`);
}

/** Default path of the daemon's configuration. */
export const CONFIG_FILE = "/etc/kube-vhostuser/config.yaml";
/** Default path of the daemon's status socket. */
const STATUS_SOCKET = "/run/kube-vhostuser/status.sock";

/** What the command line says of where things are. */
export interface PlaceOptions {
  readonly socket?: string | undefined;
  readonly config?: string | undefined;
  /** Name of this node, for a configuration that names none. */
  readonly node: string;
}

/** The daemon's configuration, or why it cannot be had. */
export type FoundConfig = { readonly config: DaemonConfig } | { readonly problem: string };

/** Reads the configuration that the daemon reads. */
export async function findConfig({ config = CONFIG_FILE, node }: PlaceOptions): Promise<FoundConfig> {
  try {
    return { config: await loadConfig(config, node) };
  } catch (error) {
    return { problem: toFailure(error).message };
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
