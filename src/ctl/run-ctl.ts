import { parseArgs } from "node:util";
import { describeThrown, Failure } from "../failure/failure.ts";
import { printableText } from "../names/printable.ts";
import type { CommandContext } from "./command-context.ts";
import {
  COMMON_OPTIONS,
  type CommandName,
  type DeclaredOption,
  declared,
  EXIT,
  type ExitCode,
  isCommand,
} from "./commands.ts";
import type { CheckedHost } from "./doctor/node-check.ts";
import { runDoctor } from "./doctor/run-doctor.ts";
import { commandHelp, programHelp } from "./help/help.ts";
import { PODS, runCompletion } from "./help/run-completion.ts";
import { findSocket } from "./settings.ts";
import { runStatus } from "./status/run-status.ts";
import type { Screen } from "./terminal/screen.ts";
import { runTop } from "./top/run-top.ts";
import { runTrace } from "./trace/run-trace.ts";

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
  /** Ends a command that goes on until told to stop. */
  readonly signal: AbortSignal;
  /** The machine that doctor checks. */
  readonly host: Omit<CheckedHost, "places" | "version">;
}

/** Runs one command; what it throws is told in one line. @returns the program's exit code */
export async function runCtl(options: CtlOptions): Promise<ExitCode> {
  const { args, screen, complain } = options;
  try {
    const [command, ...rest] = args;
    if (command === "--version") {
      screen.write(`vhostuserctl ${options.version}\n`);
      return EXIT.healthy;
    }
    if (command === "--help" || command === "-h" || command === "help") {
      screen.write(rest[0] !== undefined && isCommand(rest[0]) ? commandHelp(rest[0]) : programHelp());
      return EXIT.healthy;
    }
    if (command === undefined || !isCommand(command)) {
      complain(
        command === undefined
          ? programHelp()
          : `vhostuserctl: there is no command ${JSON.stringify(command)}; see vhostuserctl --help\n`,
      );
      return EXIT.unreachable;
    }
    return await runCommand(command, rest, options);
  } catch (error) {
    complain(`vhostuserctl: ${printableText(describeThrown(error))}\n`);
    return EXIT.unreachable;
  }
}

async function runCommand(
  command: CommandName,
  args: readonly string[],
  { screen, node, signal, version, host }: CtlOptions,
): Promise<ExitCode> {
  const { values, argument } = parse(command, args);
  if (values["help"] === true) {
    screen.write(commandHelp(command));
    return EXIT.healthy;
  }
  const text = (name: string) => (typeof values[name] === "string" ? values[name] : undefined);
  const places = { socket: text("socket"), config: text("config"), node };
  const context: CommandContext = {
    screen,
    json: values["json"] === true,
    socket: () => findSocket(places),
    signal,
  };
  switch (command) {
    case "status":
      return runStatus(context);
    case "trace":
      return runTrace(context, { pod: argument, interface: text("interface") });
    case "doctor":
      return runDoctor(context, { ...host, places, version });
    case "top":
      return runTop(context, { once: values["once"] === true, interval: text("interval") });
    case "completion":
      return runCompletion(context, argument);
  }
}

/** @throws Failure `invalid-request` for what the command does not take */
function parse(command: CommandName, args: readonly string[]) {
  const { argument, choices, options } = declared(command);
  const taken: Readonly<Record<string, DeclaredOption>> = { ...options, ...COMMON_OPTIONS };
  const fix = `see vhostuserctl ${command} --help`;
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: Object.fromEntries(
        Object.entries(taken).map(([name, { type, short }]) => [
          name,
          { type, ...(short === undefined ? {} : { short }) },
        ]),
      ),
    });
  } catch (error) {
    throw new Failure({ code: "invalid-request", what: describeThrown(error), fix });
  }
  const { values, positionals } = parsed;
  const [given = ""] = positionals;
  if (values["help"] !== true) {
    const wanted = argument === undefined ? 0 : 1;
    if (positionals.length !== wanted) {
      const takes =
        argument === undefined ? "no argument" : `one argument, ${choices?.join("|") ?? argument}`;
      throw new Failure({ code: "invalid-request", what: `${command} takes ${takes}`, fix });
    }
    if (choices !== undefined && !choices.includes(given) && given !== PODS) {
      throw new Failure({
        code: "invalid-request",
        what: `${JSON.stringify(given)} is none of ${choices.join(", ")}`,
        fix,
      });
    }
  }
  return { values, argument: given };
}
