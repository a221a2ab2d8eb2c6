import type { FailureCode } from "../failure/catalogue.ts";
import { toFailure } from "../failure/failure.ts";
import { IpamError } from "../ipam/ipam.ts";

/** CNI error codes: below 100 by the CNI spec 1.1.0 (section 5, Error), from 100 on our own. */
export const CNI_CODES: Partial<Record<FailureCode, number>> = {
  "unsupported-cni-version": 1,
  "unsupported-field": 2,
  "invalid-request": 4,
  undecodable: 6,
  "invalid-network-config": 7,
  "dataplane-unavailable": 11,
  "dataplane-timeout": 11,
  "kubelet-unavailable": 11,
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
    msg: `vhostuser: ${failure.what}`,
    ...(details === "" ? {} : { details }),
  };
}
