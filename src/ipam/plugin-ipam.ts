import { z } from "zod";
import { Failure } from "../failure/failure.ts";
import type { CniVersion } from "../names/cni-version.ts";
import type { Addressing } from "../records/port-record.ts";
import { parseAddressing } from "./addressing.ts";
import type { Delegate, DelegateReply } from "./delegate.ts";
import { type Ipam, IpamError, type IpamRequest, isPluginName } from "./ipam.ts";

/** Exit codes without output that mean that the shim ended the plugin (src/cni/shim/PROTOCOL.md). */
const ENDED_BY_SHIM: Readonly<Record<number, string>> = {
  124: "took longer than a minute and was ended",
  126: "printed more than 1 MiB and was ended",
};
const NOT_FOUND = 127;

/** CNI's error object (CNI spec 1.1.0, section 5), as far as it is needed. */
const errorSchema = z.looseObject({
  code: z.number().int().positive(),
  msg: z.string(),
  details: z.string().optional(),
});

/**
 * An IPAM plugin on the node: an executable in CNI_PATH that the shim runs.
 * Failures of all verbs: ipam-failed (an {@link IpamError}), ipam-missing, ipam-interrupted.
 */
export class PluginIpam implements Ipam {
  readonly #type: string;
  readonly #delegate: Delegate;

  /** @param type file name of the executable */
  constructor(type: string, delegate: Delegate) {
    this.#type = type;
    this.#delegate = delegate;
  }

  async add(request: IpamRequest, cniVersion: CniVersion): Promise<Addressing> {
    return parseAddressing(await this.#run("ADD", request), this.#type, cniVersion);
  }

  async del(request: IpamRequest): Promise<void> {
    await this.#run("DEL", request);
  }

  async check(request: IpamRequest): Promise<void> {
    await this.#run("CHECK", request);
  }

  async gc(request: IpamRequest): Promise<void> {
    await this.#run("GC", request);
  }

  async status(request: IpamRequest): Promise<void> {
    await this.#run("STATUS", request);
  }

  /** @returns what the plugin printed, parsed; undefined for nothing */
  async #run(verb: string, { env, stdin }: IpamRequest): Promise<unknown> {
    const reply = await this.#delegate({ type: this.#type, stdin, env: { ...env, CNI_COMMAND: verb } });
    if (reply.exitCode !== 0) throw this.#failureOf(verb, env, reply);
    if (reply.stdout.trim() === "") return undefined;
    try {
      return JSON.parse(reply.stdout);
    } catch (cause) {
      throw new IpamError({
        code: "ipam-failed",
        what: `${this.#named} printed ${JSON.stringify(reply.stdout.slice(0, 200))}, which is not JSON`,
        where: `CNI ${verb}`,
        cause,
      });
    }
  }

  #failureOf(verb: string, env: IpamRequest["env"], { exitCode, stdout }: DelegateReply): Failure {
    if (exitCode === NOT_FOUND && stdout === "") {
      return new Failure({
        code: "ipam-missing",
        what: `${this.#named} is not in CNI_PATH, or cannot be executed`,
        where: `CNI_PATH=${env["CNI_PATH"] ?? ""}`,
        fix: "install it on the node, beside the other CNI plugins",
      });
    }
    const error = errorOf(stdout);
    if (error === undefined) {
      const ended = stdout === "" ? ENDED_BY_SHIM[exitCode] : undefined;
      return new IpamError({
        code: "ipam-failed",
        what: `${this.#named} ${ended ?? describeExit(exitCode)}, without a CNI error on stdout`,
        where: `CNI ${verb}`,
        fix: "what it wrote to stderr is in the runtime's or Multus' log",
      });
    }
    const where = error.details ? { where: error.details } : {};
    return new IpamError({ code: "ipam-failed", what: `${this.#named}: ${error.msg}`, ...where }, error.code);
  }

  get #named(): string {
    return `IPAM plugin ${JSON.stringify(this.#type)}`;
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
