import { Failure } from "../../failure/failure.ts";
import { lostRace, requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import type { PortRequest } from "../port.ts";
import { readApplied, requestConfiguration, requestedConfiguration } from "./applied.ts";
import type { OvsContext } from "./context.ts";
import { isSameAttachment } from "./marks.ts";
import type { Step } from "./next-step.ts";
import { errorOf } from "./port-state.ts";
import { type InterfaceRow, interfaceTable, type PortRow, portTable } from "./rows.ts";

/** Each attempt that another client's change makes void; more in a row means that somebody fights over the port. */
export const ATTEMPTS = 10;

/** The configuration number of the committed step, or undefined where it is to be thought over. */
export async function takeStep(
  context: OvsContext,
  request: PortRequest,
  step: Exclude<Step, { kind: "none" }>,
  attempt: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const operations = [...step.operations, ...requestConfiguration];
  const outcome = await context.client.transact(operations, signal);
  if (outcome.committed || !lostRace(operations, outcome)) {
    return requestedConfiguration(requireCommitted(operations, outcome));
  }
  if (attempt < ATTEMPTS) return undefined;
  throw new Failure({
    code: "port-conflict",
    what: `what others have in the switch kept the port from being made ${ATTEMPTS} times: ${outcome.details || outcome.error}`,
    where: `port ${request.name}, bridge ${request.bridge}`,
    fix: "see who else changes it; a bridge that is to be made cannot have the name of a port",
  });
}

/** The port's rows once the switch has applied them: from here on it has its OpenFlow port number. */
export async function readMade(
  context: OvsContext,
  request: PortRequest,
  number: number,
  signal: AbortSignal,
): Promise<{ readonly port: PortRow; readonly row: InterfaceRow }> {
  const reads = [
    portTable.select([["name", "==", request.name]]),
    interfaceTable.select([["name", "==", request.name]]),
  ];
  const results = await readApplied(context, number, reads, signal);
  const port = portTable.read(results[0])[0];
  const row = interfaceTable.read(results[1])[0];
  const gone = port === undefined || row === undefined || !isSameAttachment(port.external_ids, request.owner);
  const error = gone ? "somebody removed it at the same time" : whyNotMade(row);
  if (!gone && error === undefined) return { port, row };
  throw new Failure({
    code: "port-failed",
    what: `the switch could not make port ${JSON.stringify(request.name)}: ${error}`,
    where: `bridge ${request.bridge}, socket ${request.socketPath}`,
    fix: "read the log of ovs-vswitchd",
  });
}

function whyNotMade(row: InterfaceRow): string | undefined {
  const error = errorOf(row);
  if (error !== undefined) return error;
  return row.ofport === undefined ? "it has no OpenFlow port number, so its bridge does not work" : undefined;
}
