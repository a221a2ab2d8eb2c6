import { Command, InvalidArgumentError, Option } from "commander";
import { toFailure } from "../failure/failure.ts";

/**
 * A program's command line. `--help` and `--version` print and end the process with 0; what it does not know prints
 * that and the usage, and ends the process with 2.
 * @param version the release, of programs that have one
 */
export function programOf(name: string, description: string, version?: string): Command {
  const program = new Command(name)
    .description(description)
    .allowExcessArguments(false)
    .showHelpAfterError()
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));
  if (version !== undefined) program.version(`kube-vhostuser ${version}`, "--version", "print the release");
  return program;
}

/** Options of a program that serves metrics and uses the API server. */
export interface ApiProgramOptions {
  readonly observeAddress: string;
  readonly observePort: number;
  readonly serviceAccount: string;
  readonly apiServer?: string;
  readonly logLevel: string;
}

/** Adds the options of {@link ApiProgramOptions}. */
export function withApiOptions(program: Command): Command {
  const levels = ["trace", "debug", "info", "warn", "error"];
  return program
    .option("--observe-address <ip>", "where metrics and probes are served", "127.0.0.1")
    .option("--observe-port <number>", "port of metrics and probes", wholeNumber, 9419)
    .option(
      "--service-account <directory>",
      "token and ca.crt of its ServiceAccount",
      "/var/run/secrets/kubernetes.io/serviceaccount",
    )
    .option("--api-server <url>", "in place of the cluster's own address of the API server")
    .addOption(new Option("--log-level <level>", "how much is logged").choices(levels).default("info"));
}

/**
 * Reads the command line and runs the program's action. A failure is printed, a defect with its stack, and the exit code
 * is 1.
 */
export async function runProgram(program: Command): Promise<void> {
  try {
    await program.parseAsync();
  } catch (error) {
    const { code, message, cause } = toFailure(error);
    process.stderr.write(`${program.name()}: ${message}\n`);
    if (code === "internal" && cause instanceof Error) process.stderr.write(`${cause.stack}\n`);
    process.exitCode = 1;
  }
}

/** Parses an option's value. @throws InvalidArgumentError, which is a wrong command line */
export function wholeNumber(text: string): number {
  const value = Number(text);
  if (text !== "" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new InvalidArgumentError("It must be a whole number.");
}
