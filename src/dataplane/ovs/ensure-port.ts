import { describeThrown, Failure } from "../../failure/failure.ts";
import { lostRace, requireCommitted } from "../../ovsdb/transaction.ts";
import type { PortRequest, PortState } from "../port.ts";
import { readApplied, requestConfiguration, requestedConfiguration } from "./applied.ts";
import { checkRequest } from "./check-request.ts";
import type { OvsContext } from "./context.ts";
import { whyUnfit } from "./fitness.ts";
import { isOurs, isSameAttachment, settingsBefore } from "./marks.ts";
import { nextStep, type Step } from "./next-step.ts";
import { errorOf, readPortState } from "./port-state.ts";
import { deleteFromDatabase, removePort } from "./remove-port.ts";
import { removeStrays } from "./remove-strays.ts";
import { type InterfaceRow, interfaceTable, type PortRow, portTable } from "./rows.ts";
import { whySettingUnfit } from "./setting-fitness.ts";
import { settleSecurity } from "./settle-security.ts";
import { readView, type View } from "./view.ts";

/** Each attempt that another client's change makes void; more in a row means that somebody fights over the port. */
const ATTEMPTS = 10;
const UNDO_LIMIT_MS = 5000;

/** {@link Dataplane.ensurePort}: looks, takes one step, waits until the switch has taken it too, looks again. */
export async function ensurePort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<PortState> {
  checkRequest(request, context.node);
  let inserted = false;
  try {
    for (let attempt = 1; ; attempt += 1) {
      const view = await readView(context.client, request, signal);
      const unfit =
        whyUnfit(view, request.bridge, {
          missing: request.settings.createBridge === true ? "made" : "unfit",
        }) ?? whySettingUnfit(view.switch, request);
      if (unfit !== undefined) throw unfit;
      const older = view.rivals.find(({ external_ids }) => isOurs(external_ids, context.node));
      if (older !== undefined && attempt < ATTEMPTS) {
        await removeOlder(context, older.name, request, signal);
        continue;
      }
      const step = nextStep(view, request);
      if (step.kind === "none") return await finish(context, request, view, view.switch.next_cfg, signal);
      inserted = step.kind === "insert"; // from here on: when no answer comes it may be committed
      const number = await take(context, step, attempt, signal);
      if (number === undefined) {
        inserted = false;
        continue;
      }
      if (step.kind === "delete") await readApplied(context, number, [], signal);
      else return await finish(context, request, view, number, signal);
    }
  } catch (failure) {
    if (inserted) await undo(context, request, failure);
    throw failure;
  }
}

/**
 * A socket belongs to one interface of one allocation, so another port of ours on it is of an older sandbox whose
 * DEL never came, or whose record was lost. The switch takes one port per socket.
 */
async function removeOlder(
  context: OvsContext,
  name: string,
  request: PortRequest,
  signal: AbortSignal,
): Promise<void> {
  context.logger.warn(
    { port: name, socket: request.socketPath },
    "removing an older sandbox's port of the same socket",
  );
  await removePort(context, name, signal);
}

/** What is left to do for a port that is in the database as asked, once the switch has made it. */
async function finish(
  context: OvsContext,
  request: PortRequest,
  before: View,
  number: number,
  signal: AbortSignal,
): Promise<PortState> {
  const { port, row } = await readMade(context, request, number, signal);
  await settleSecurity(context, request, settingsBefore(before.port?.external_ids ?? new Map()), signal);
  if (request.settings.toGuest === undefined && before.qos.length > 0) {
    await dropLimit(context, request, signal);
  }
  return readPortState(request.bridge, port, row);
}

/** Deletes the QoS row that the port does not refer to any more. The port itself is made, whatever becomes of this. */
async function dropLimit(context: OvsContext, request: PortRequest, signal: AbortSignal): Promise<void> {
  try {
    await removeStrays(context, request.name, signal);
  } catch (thrown) {
    context.logger.warn(
      { port: request.name, reason: describeThrown(thrown) },
      "a QoS row that is not used any more stays until the next pass",
    );
  }
}

/** The configuration number of the committed step, or undefined where it is to be thought over. */
async function take(
  context: OvsContext,
  step: Exclude<Step, { kind: "none" }>,
  attempt: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const operations = [...step.operations, ...requestConfiguration];
  const outcome = await context.client.transact(operations, signal);
  if (lostRace(operations, outcome) && attempt < ATTEMPTS) return undefined;
  return requestedConfiguration(requireCommitted(operations, outcome));
}

/** The port's rows once the switch has applied them: from here on it has its OpenFlow port number. */
async function readMade(
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

/** Also where the answer to the insert never came: what is deleted is known by its mark, not by its uuid. */
async function undo(context: OvsContext, request: PortRequest, failure: unknown): Promise<void> {
  const port = request.name;
  try {
    const mine = (ids: ReadonlyMap<string, string>) => isSameAttachment(ids, request.owner);
    await deleteFromDatabase(context, port, mine, AbortSignal.timeout(UNDO_LIMIT_MS));
    context.logger.info({ port, reason: describeThrown(failure) }, "took back a port that was not made");
  } catch (thrown) {
    context.logger.warn(
      { port, reason: describeThrown(failure), err: thrown },
      "could not take back a port that was not made; the next ADD adopts it or collection removes it",
    );
  }
}
