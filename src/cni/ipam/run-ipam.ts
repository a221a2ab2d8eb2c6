import { z } from "zod";
import { Failure, toFailure } from "../../failure/failure.ts";
import type { Delegate, DelegateReply } from "../delegate.ts";
import { IpamError } from "./ipam-error.ts";

/** The verbs that are handed on to an IPAM plugin (CNI spec 1.1.0, section 4). */
export type IpamVerb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";

/** One call of an IPAM plugin. */
export interface IpamCall {
  /** `ipam.type` of the configuration. */
  readonly type: string;
  readonly verb: IpamVerb;
  /** The request's CNI_ variables; CNI_COMMAND is replaced by the verb. */
  readonly env: Readonly<Record<string, string>>;
  /** The complete network configuration. */
  readonly stdin: Uint8Array;
}

/** Exit codes without output that mean that the shim ended the plugin (shim/PROTOCOL.md). */
const ENDED_BY_SHIM: Readonly<Record<number, string>> = {
  124: "took longer than a minute and was ended",
  126: "printed more than 1 MiB and was ended",
};

const PLUGIN_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$/;

/** CNI's error object, as far as it is needed. */
const errorSchema = z.looseObject({
  code: z.number().int().positive(),
  msg: z.string(),
  details: z.string().optional(),
});

/** Whether a text can be the file name of an executable, and nothing but a file name. */
export function isPluginName(text: string): boolean {
  return PLUGIN_NAME.test(text);
}

/**
 * Has the shim run an IPAM plugin, with the request's environment and complete configuration.
 * @returns what it printed, parsed; undefined for nothing
 * @throws Failure ipam-failed (an {@link IpamError}), ipam-missing, ipam-interrupted, cni-outdated
 */
export async function runIpam(call: IpamCall, delegate: Delegate | undefined): Promise<unknown> {
  const { type, verb, stdin } = call;
  if (delegate === undefined) {
    throw new Failure({
      code: "cni-outdated",
      what: `the network wants addresses from IPAM plugin ${JSON.stringify(type)}, and the CNI executable on this node is too old to run it`,
      where: `CNI ${verb}`,
      fix: "install the CNI executable of the daemon's release on the node",
    });
  }
  const reply = await delegate({ type, stdin, env: { ...call.env, CNI_COMMAND: verb } });
  if (reply.exitCode === 0) return reply.stdout.trim() === "" ? undefined : parseOutput(call, reply.stdout);
  throw failureOf(call, reply);
}

/** CNI's code for a version that the plugin does not speak, which it looks at before all else. */
const INCOMPATIBLE_VERSION = 1;

/** Whether a failure of {@link runIpam} means that the plugin did nothing, so that it holds nothing. */
export function didNothing(thrown: unknown): boolean {
  const { code } = toFailure(thrown);
  if (code === "ipam-missing" || code === "cni-outdated") return true;
  return thrown instanceof IpamError && thrown.cniCode === INCOMPATIBLE_VERSION;
}

function parseOutput({ type, verb }: IpamCall, stdout: string): unknown {
  try {
    return JSON.parse(stdout);
  } catch (cause) {
    throw new IpamError({
      code: "ipam-failed",
      what: `IPAM plugin ${JSON.stringify(type)} printed ${JSON.stringify(stdout.slice(0, 200))}, which is not JSON`,
      where: `CNI ${verb}`,
      cause,
    });
  }
}

function failureOf({ type, verb, env }: IpamCall, { exitCode, stdout }: DelegateReply): Failure {
  const named = `IPAM plugin ${JSON.stringify(type)}`;
  if (exitCode === 127 && stdout === "") {
    return new Failure({
      code: "ipam-missing",
      what: `${named} is not in CNI_PATH, or cannot be executed`,
      where: `CNI_PATH=${env["CNI_PATH"] ?? ""}`,
      fix: "install it on the node, beside the other CNI plugins",
    });
  }
  const said = errorOf(stdout);
  if (said === undefined) {
    const end = stdout === "" && ENDED_BY_SHIM[exitCode] ? ENDED_BY_SHIM[exitCode] : endOf(exitCode);
    return new IpamError({
      code: "ipam-failed",
      what: `${named} ${end}, without a CNI error on stdout`,
      where: `CNI ${verb}`,
      fix: "what it wrote to stderr is in the runtime's or Multus' log",
    });
  }
  const where = said.details === undefined || said.details === "" ? {} : { where: said.details };
  return new IpamError({ code: "ipam-failed", what: `${named}: ${said.msg}`, ...where }, said.code);
}

function endOf(exitCode: number): string {
  return exitCode > 128 ? `was ended by signal ${exitCode - 128}` : `ended with ${exitCode}`;
}

function errorOf(stdout: string): z.infer<typeof errorSchema> | undefined {
  try {
    return errorSchema.safeParse(JSON.parse(stdout)).data;
  } catch {
    return undefined;
  }
}
