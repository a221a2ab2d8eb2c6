import { Failure } from "../../failure/failure.ts";
import { ByteReader } from "./byte-reader.ts";

/** `ofp_error_type` (OpenFlow 1.4 section 7.5.4), as far as our requests can meet it. */
const TYPES: Readonly<Record<number, string>> = {
  0: "hello failed",
  1: "bad request",
  2: "bad action",
  3: "bad instruction",
  4: "bad match",
  5: "flow modification failed",
  7: "port modification failed",
  11: "role request failed",
  13: "multipart request failed",
  17: "bundle failed",
};
const HELLO_FAILED = 0;
const FLOW_MOD_FAILED = 5;
const TABLE_FULL = 1;

/**
 * An error message of the switch as a failure: what we asked for is the switch's to refuse, so it is
 * dataplane-protocol, but for what an admin can change (dataplane-misconfigured).
 */
export function readError(body: Buffer): Failure {
  const reader = new ByteReader(body, "error");
  const type = reader.u16();
  const code = reader.u16();
  if (type === FLOW_MOD_FAILED && code === TABLE_FULL) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: "the bridge's flow table is full",
      where: "table 0",
      fix: "raise or remove flow_limit of the bridge's Flow_Table",
    });
  }
  const words =
    type === HELLO_FAILED ? `: ${JSON.stringify(reader.take(reader.left).toString("latin1"))}` : "";
  return new Failure({
    code: type === HELLO_FAILED ? "dataplane-misconfigured" : "dataplane-protocol",
    what: `the switch refused an OpenFlow request: ${TYPES[type] ?? `error type ${type}`}, code ${code}${words}`,
    fix: "read the log of ovs-vswitchd",
  });
}
