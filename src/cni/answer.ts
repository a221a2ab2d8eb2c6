import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import { IpamError } from "../ipam/ipam.ts";
import { retryPendingIpamDels } from "../ipam/release-addresses.ts";
import type { LogFields } from "../logging/fields.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { isAtLeast, SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";
import { add } from "./add.ts";
import { check } from "./check.ts";
import type { CniContext } from "./cni-context.ts";
import { del } from "./del.ts";
import { gc } from "./gc.ts";
import { type NetworkConfig, parseNetworkConfig } from "./network-config.ts";
import { parseAttachmentRequest, parseSandboxInterface, type RawRequest } from "./request.ts";
import { status } from "./status.ts";

/** What the shim prints and exits with. */
export interface Answer {
  readonly exitCode: 0 | 1;
  /** One JSON object, or empty. */
  readonly stdout: string;
  /** The failure in it; not sent to the shim, as what follows. */
  readonly failure?: Failure;
  /** Keys of the network's configuration that are not known and were ignored. */
  readonly ignoredKeys?: readonly string[];
}

/** Carries out one CNI verb (CNI spec 1.1.0, section 2); never throws. */
export async function answer(raw: RawRequest, context: CniContext, signal: AbortSignal): Promise<Answer> {
  const { clock, logger } = context;
  const verb = raw.env["CNI_COMMAND"] ?? "";
  const startedAtMs = clock.monotonic();
  let ignoredKeys: readonly string[] = [];
  const parse = (stdin: Buffer): NetworkConfig => {
    const config = parseNetworkConfig(stdin);
    ({ ignoredKeys } = config);
    if (ignoredKeys.length > 0 && WARNING_VERBS.has(verb)) {
      logger.warn({ ...requestFields(raw), keys: ignoredKeys }, "unknown keys of the network are ignored");
    }
    return config;
  };
  try {
    const result = await carryOut(verb, raw, parse, context, signal).finally(() =>
      RETRYING.has(verb) ? retryPendingIpamDels(context, raw.delegate, startedAtMs) : undefined,
    );
    return { exitCode: 0, stdout: result === undefined ? "" : `${JSON.stringify(result)}\n`, ignoredKeys };
  } catch (error) {
    const failure = toFailure(error);
    logger.error({ ...requestFields(raw), err: failure }, "CNI request failed");
    const stdout = `${JSON.stringify(errorAnswer(failure, requestedVersion(raw)))}\n`;
    return { exitCode: 1, failure, stdout, ignoredKeys };
  }
}

/** Verbs that warn of unknown keys; the others come to the same networks. */
export const WARNING_VERBS: ReadonlySet<string> = new Set(["ADD", "STATUS"]);

/** What a log line says of a request, whatever is wrong with it. */
function requestFields({ env, stdin }: RawRequest): LogFields {
  const { CNI_COMMAND: verb, CNI_CONTAINERID: container, CNI_IFNAME: interfaceName, CNI_ARGS = "" } = env;
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = parseCniArgs(CNI_ARGS);
  const pod = name === undefined ? undefined : `${namespace}/${name}`;
  return { verb, pod, network: textOf(stdin, "name"), container, interface: interfaceName };
}

/** Verbs that also retry pending releases of addresses; a runtime calls the others many times an hour. */
const RETRYING: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK", "GC"]);

async function carryOut(
  verb: string,
  raw: RawRequest,
  parse: (stdin: Buffer) => NetworkConfig,
  context: CniContext,
  signal: AbortSignal,
): Promise<object | undefined> {
  switch (verb) {
    case "ADD":
      return add(parseAttachmentRequest(raw, parse), context, signal);
    case "DEL":
      // stdin is not parsed: a configuration that is gone or broken must not keep a port.
      await del(parseSandboxInterface(raw.env), raw, context, signal);
      return undefined;
    case "CHECK": {
      const request = parseAttachmentRequest(raw, parse);
      requireVersion(request.config, "0.4.0", verb);
      await check(request, context, signal);
      return undefined;
    }
    case "STATUS":
    case "GC": {
      const config = parse(raw.stdin);
      requireVersion(config, "1.1.0", verb);
      await (verb === "GC" ? gc : status)(config, raw, context, signal);
      return undefined;
    }
    case "VERSION":
      return { cniVersion: requestedVersion(raw), supportedVersions: SUPPORTED_CNI_VERSIONS };
    default:
      throw new Failure({
        code: "invalid-request",
        what: `CNI_COMMAND=${JSON.stringify(verb)} is not a CNI verb`,
        where: "environment",
        fix: "the container runtime must set it to ADD, DEL, CHECK, GC, STATUS or VERSION",
      });
  }
}

function requireVersion(config: NetworkConfig, least: "0.4.0" | "1.1.0", verb: string): void {
  if (isAtLeast(config.cniVersion, least)) return;
  throw new Failure({
    code: "unsupported-cni-version",
    what: `${verb} needs cniVersion ${least}, the configuration says ${config.cniVersion}`,
    where: "network configuration",
  });
}

/** The request's cniVersion, or ours where stdin holds none: errors need one whatever is wrong with stdin. */
function requestedVersion({ stdin }: RawRequest): string {
  return textOf(stdin, "cniVersion") ?? "1.1.0";
}

/** A text of a configuration that may be wrong; undefined where it holds none. */
function textOf(stdin: Buffer, key: "cniVersion" | "name"): string | undefined {
  try {
    const text: unknown = JSON.parse(stdin.toString("utf8"))?.[key];
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}

/** CNI error codes: below 100 by the CNI spec 1.1.0 (section 5, Error), from 100 on our own. */
export const CNI_CODES: Partial<Record<FailureCode, number>> = {
  "unsupported-cni-version": 1,
  "unsupported-field": 2,
  "setting-unsupported": 2,
  "invalid-request": 4,
  undecodable: 6,
  "invalid-network-config": 7,
  "dataplane-unavailable": 11,
  "dataplane-timeout": 11,
  "kubelet-unavailable": 11,
  "daemon-unavailable": 11,
  busy: 11,
  superseded: 11,
  "not-ready": 50,
  "unknown-device": 101,
  "attachment-conflict": 102,
  "port-conflict": 103,
  "bridge-missing": 104,
  "port-failed": 105,
  "check-failed": 106,
  "path-too-long": 107,
  "directory-unsafe": 108,
  "invalid-config": 109,
  "record-unreadable": 110,
  "dataplane-misconfigured": 111,
  "ipam-interrupted": 11,
  "ipam-failed": 112,
  "ipam-missing": 113,
  "vrf-missing": 115,
  "record-unwritable": 116,
};

/** Code for "something else", as the reference library has it. */
const INTERNAL = 999;

/** A failure as the JSON object that a CNI plugin prints; an IPAM plugin's own code is passed on. */
export function errorAnswer(thrown: unknown, cniVersion: string): object {
  const failure = toFailure(thrown);
  const details = [failure.where, failure.fix].filter((text) => text !== undefined).join("; ");
  return {
    cniVersion,
    code: (failure instanceof IpamError ? failure.cniCode : undefined) ?? CNI_CODES[failure.code] ?? INTERNAL,
    msg: `vhostuser ${failure.code}: ${failure.what}`,
    ...(details === "" ? {} : { details }),
  };
}
