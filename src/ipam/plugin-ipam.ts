import * as z from "zod";
import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, type FailureOptions } from "../failure/failure.ts";
import { type Delegate, type DelegateReply, IpamError, type IpamRequest, isPluginName } from "./ipam.ts";

/** Exit codes without output that mean that the shim ended the plugin (src/cni/shim/PROTOCOL.md). */
const ENDED_BY_SHIM: Readonly<Record<number, string>> = {
  124: "took too long and was ended",
  126: "printed more than 1 MiB and was ended",
};
const NOT_FOUND = 127;

/** CNI's error object (CNI spec 1.1.0, section 5), as far as it is needed. */
const errorSchema = z.looseObject({
  code: z.number().int().positive(),
  msg: z.string(),
  details: z.string().optional(),
});

/** What kind of plugin it is, in the words and codes of failures. */
export interface PluginKind {
  readonly name: string;
  readonly failed: FailureCode;
  readonly missing: FailureCode;
  /** Where its stderr is. */
  readonly log: string;
}

const IPAM_PLUGIN: PluginKind = {
  ...{ name: "IPAM plugin", failed: "ipam-failed", missing: "ipam-missing" },
  log: "the runtime's or Multus' log",
};

/**
 * Runs a verb of the IPAM plugin that `ipam.type` of a network names (CNI spec 1.1.0, section 4, "Delegated Plugins"): an
 * executable in CNI_PATH, which the shim runs. One interface of one sandbox gets addresses once; a DEL may be repeated.
 * @returns what it printed, parsed; undefined for nothing
 * @throws Failure ipam-failed (an {@link IpamError}), ipam-missing, ipam-interrupted
 */
export async function runIpam(
  type: string,
  verb: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS",
  request: IpamRequest,
  delegate: Delegate,
): Promise<unknown> {
  return runPlugin(IPAM_PLUGIN, { type, verb, ...request }, delegate);
}

/** The same for a plugin of any kind. @throws Failure with the codes of its kind */
export async function runPlugin(
  kind: PluginKind,
  { type, verb, env, stdin }: IpamRequest & { readonly type: string; readonly verb: string },
  delegate: Delegate,
): Promise<unknown> {
  const reply = await delegate({ type, stdin, env: { ...env, CNI_COMMAND: verb } });
  return parseReply(kind, type, verb, env, reply);
}

function parseReply(
  kind: PluginKind,
  type: string,
  verb: string,
  env: IpamRequest["env"],
  reply: DelegateReply,
): unknown {
  const { exitCode, stdout } = reply;
  const plugin = `${kind.name} ${JSON.stringify(type)}`;
  if (exitCode === NOT_FOUND && stdout === "") {
    throw new Failure({
      code: kind.missing,
      what: `${plugin} is not in CNI_PATH, or cannot be executed`,
      where: `CNI_PATH=${env["CNI_PATH"] ?? ""}`,
      fix: "install it on the node, beside the other CNI plugins",
    });
  }
  const failed = (options: Omit<FailureOptions, "code">, cniCode?: number) =>
    new IpamError({ code: kind.failed, where: `CNI ${verb}`, ...options }, cniCode);
  if (exitCode !== 0) {
    const error = errorOf(stdout);
    if (error !== undefined) {
      const where = error.details ? { where: error.details } : {};
      throw failed({ what: `${plugin}: ${error.msg}`, ...where }, error.code);
    }
    const ended = stdout === "" ? ENDED_BY_SHIM[exitCode] : undefined;
    throw failed({
      what: `${plugin} ${ended ?? describeExit(exitCode)}, without a CNI error on stdout`,
      fix: `what it wrote to stderr is in ${kind.log}`,
    });
  }
  if (stdout.trim() === "") return undefined;
  try {
    return JSON.parse(stdout);
  } catch (cause) {
    throw failed({
      what: `${plugin} printed ${JSON.stringify(stdout.slice(0, 200))}, which is not JSON`,
      cause,
    });
  }
}

function describeExit(exitCode: number): string {
  return exitCode > 128 ? `was ended by signal ${exitCode - 128}` : `ended with ${exitCode}`;
}

function errorOf(stdout: string): z.infer<typeof errorSchema> | undefined {
  try {
    return errorSchema.safeParse(JSON.parse(stdout)).data;
  } catch {
    return undefined;
  }
}

const namedSchema = z.looseObject({
  cniVersion: z.string(),
  name: z.string().min(1),
  type: z.string().optional(),
  ipam: z.looseObject({ type: z.string().refine(isPluginName) }),
});

/**
 * `ipam.type` of a network configuration, read leniently: whatever else is wrong with the configuration of a DEL,
 * addresses must be released. Undefined where it names none, or is no configuration.
 */
export function ipamTypeOf(stdin: Uint8Array): string | undefined {
  try {
    const { data } = namedSchema.safeParse(JSON.parse(Buffer.from(stdin).toString("utf8")));
    return data === undefined || data.ipam.type === data.type ? undefined : data.ipam.type;
  } catch {
    return undefined;
  }
}
