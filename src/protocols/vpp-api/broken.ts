import { Failure } from "../../failure/failure.ts";

/** The Failure for bytes that VPP's binary API does not allow. */
export function broken(what: string, where?: string): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `VPP sent ${what}`,
    fix: "check that the configured socket is VPP's API socket (socksvr in its startup.conf)",
    ...(where === undefined ? {} : { where }),
  });
}
