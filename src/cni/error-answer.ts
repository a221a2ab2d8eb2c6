// Requests and failures as text, for all that answer a CNI executable.
import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import { IpamError } from "../ipam/ipam.ts";
import type { LogFields } from "../logging/fields.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";
import type { RawRequest } from "./request.ts";

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
  "kube-api-unavailable": 11,
  "pool-exhausted": 11,
  "ipam-claim-missing": 11,
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
  "pool-missing": 117,
  "address-refused": 118,
  "ipam-claim-refused": 119,
};

/** Code for "something else", as the reference library has it. */
const INTERNAL = 999;

/**
 * A failure as the JSON object that a CNI plugin prints; an IPAM plugin's own code is passed on.
 * @param program whose failure it is, with which the text begins
 */
export function errorAnswer(thrown: unknown, cniVersion: string, program = "vhostuser"): object {
  const failure = toFailure(thrown);
  const details = [failure.where, failure.fix].filter((text) => text !== undefined).join("; ");
  return {
    cniVersion,
    code: (failure instanceof IpamError ? failure.cniCode : undefined) ?? CNI_CODES[failure.code] ?? INTERNAL,
    msg: `${program} ${failure.code}: ${failure.what}`,
    ...(details === "" ? {} : { details }),
  };
}

/** What a log line says of a request, whatever is wrong with it. */
export function requestFields({ env, stdin }: Pick<RawRequest, "env" | "stdin">): LogFields {
  const { CNI_COMMAND: verb, CNI_CONTAINERID: container, CNI_IFNAME: interfaceName, CNI_ARGS = "" } = env;
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = parseCniArgs(CNI_ARGS);
  const pod = name === undefined ? undefined : `${namespace}/${name}`;
  return { verb, pod, network: textOf(stdin, "name"), container, interface: interfaceName };
}

/** The request's cniVersion, or ours where stdin holds none: errors need one whatever is wrong with stdin. */
export function requestedVersion({ stdin }: Pick<RawRequest, "stdin">): string {
  return textOf(stdin, "cniVersion") ?? "1.1.0";
}

/**
 * Answers VERSION, the one verb without an interface or a network.
 * @param caller who sets the verb
 * @throws Failure `invalid-request` for any other verb
 */
export function answerVersion(verb: string, raw: Pick<RawRequest, "stdin">, caller: string): object {
  if (verb === "VERSION")
    return { cniVersion: requestedVersion(raw), supportedVersions: SUPPORTED_CNI_VERSIONS };
  throw new Failure({
    code: "invalid-request",
    what: `CNI_COMMAND=${JSON.stringify(verb)} is not a CNI verb`,
    where: "environment",
    fix: `${caller} must set it to ADD, DEL, CHECK, GC, STATUS or VERSION`,
  });
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
