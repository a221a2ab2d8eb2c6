import { type ParseArgsConfig, parseArgs } from "node:util";
import { toFailure } from "../failure/failure.ts";

/** How a setup program is called. */
export interface SetupProgram<Options extends NonNullable<ParseArgsConfig["options"]>> {
  readonly usage: string;
  /** Besides --version and --help. */
  readonly options: Options;
  /** The release. */
  readonly version: string;
}

const GENERAL = {
  version: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

type Values<Options extends NonNullable<ParseArgsConfig["options"]>> = ReturnType<
  typeof parseArgs<{ options: Options & typeof GENERAL }>
>["values"];

/**
 * Runs a program that sets a node up and ends: reads the command line, does the work, says in a sentence what it did.
 * The exit code is 1 after a failure, 2 after a wrong command line.
 */
export async function runSetup<Options extends NonNullable<ParseArgsConfig["options"]>>(
  { usage, options, version }: SetupProgram<Options>,
  run: (values: Values<Options>) => Promise<string>,
): Promise<void> {
  let values: Values<Options>;
  try {
    values = parseArgs({ options: { ...options, ...GENERAL } }).values;
  } catch (error) {
    process.stderr.write(`kube-vhostuser: ${toFailure(error).message}\n${usage}`);
    process.exitCode = 2;
    return;
  }
  const general = values as { readonly help?: boolean; readonly version?: boolean };
  if (general.help) return void process.stdout.write(usage);
  if (general.version) return void process.stdout.write(`kube-vhostuser ${version}\n`);
  try {
    process.stdout.write(`kube-vhostuser: ${await run(values)}\n`);
  } catch (error) {
    const failure = toFailure(error);
    process.stderr.write(`kube-vhostuser: ${failure.code}: ${failure.message}\n`);
    process.exitCode = 1;
  }
}
