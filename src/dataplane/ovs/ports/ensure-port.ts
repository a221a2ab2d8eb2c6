import { describeThrown, Failure, isSwitchAway } from "../../../failure/failure.ts";
import type { Operation } from "../../../protocols/ovsdb/transaction.ts";
import type { PortRequest, PortState } from "../../port.ts";
import { commitChange, type OvsContext, readApplied } from "../database.ts";
import { bridgeProblem, settingProblem, supportedRequest } from "../misconfiguration.ts";
import { dropSecurity, securedPort, settleSecurity } from "../security/secured-ports.ts";
import { settingDifferences } from "../settings/cells.ts";
import { checkRequest } from "../settings/check-request.ts";
import { interfaceTable, portTable, SERVER_PATH } from "../tables.ts";
import { type PortView, portDifferences, readPortView } from "./check-port.ts";
import { errorOf, readPortState } from "./list-ports.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment, portMarks, settingsBefore } from "./marks.ts";
import { deleteFromDatabase, removeStrayLimits } from "./remove-port.ts";
import { amendPort, deletePort, insertPort, socketColumns } from "./write-port.ts";

const UNDO_LIMIT_MS = 5000;

/** {@link Dataplane.ensurePort}: reads, commits one step, waits until the switch has applied it, and reads again. */
export async function ensurePort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<PortState> {
  checkRequest(request, context.node);
  let isInserted = false;
  let wasThere = false;
  const changes: string[] = [];
  try {
    for (let attempt = 1; ; attempt += 1) {
      const view = await readPortView(context, request, signal);
      const misconfigured = bridgeProblem(view, request.bridge, request.settings.createBridge);
      if (misconfigured !== undefined) throw misconfigured;
      // The port of a guest that runs gets everything else that was asked for, and the failure comes last.
      wasThere ||= view.port !== undefined && isSameAttachment(view.port.external_ids, request.owner);
      const unsupported = settingProblem(view.switch, request);
      if (unsupported !== undefined && !wasThere) throw unsupported;
      const supported = unsupported === undefined ? request : supportedRequest(view.switch, request);
      const step = planStep(view, supported);
      let number: number | undefined = view.switch.next_cfg;
      if (step.kind !== "none") {
        // Later steps only see what the earlier ones made.
        if (changes.length === 0) {
          const found = portDifferences(view, supported);
          changes.push(
            ...(found.length > 0 ? found : [`port ${request.name} has other marks than its owner's`]),
          );
        }
        if (step.kind === "insert") await checkSecurable(context, request, view, signal);
        isInserted = step.kind === "insert"; // when no answer comes it may have been committed
        ({ number } = await commitChange(context.client, step.operations, request.name, attempt, signal));
        if (number === undefined) {
          isInserted = false;
          continue;
        }
      }
      if (step.kind === "delete") {
        await readApplied(context, number, [], signal);
        continue;
      }
      const state = await finish(context, supported, view, number, signal);
      if (unsupported === undefined) return changes.length === 0 ? state : { ...state, changes };
      isInserted = false; // the port stays, without what is unsupported
      throw unsupported;
    }
  } catch (failure) {
    if (isInserted) await undo(context, request, failure);
    throw failure;
  }
}

/** The one transaction that brings a port closer to the request; `none` when nothing is left to do. */
export type Step =
  | { readonly kind: "none" }
  | { readonly kind: "insert" | "amend" | "delete"; readonly operations: readonly Operation[] };

/**
 * Pure: from what is there to what to do next. A port on the wrong bridge or socket is deleted first and inserted
 * only after the switch has removed it: ovs-vswitchd takes a row of the same name for a change in place, and ignores
 * a changed vhost-server-path silently (measured with 3.1; netdev-dpdk registers a path once).
 * @throws Failure port-conflict where name or socket belongs to another program
 */
export function planStep(view: PortView, request: PortRequest): Step {
  const { port, interface: row } = view;
  refuseConflicts(view, request);
  if (port === undefined) return { kind: "insert", operations: insertPort(request, view.bridges, view.qos) };
  const socket = socketColumns(request);
  if (
    row === undefined ||
    port.interfaces.length !== 1 ||
    row.type !== socket.type ||
    row.options.get(SERVER_PATH) !== socket.options[SERVER_PATH] ||
    view.bridge?.name !== request.bridge
  ) {
    return { kind: "delete", operations: deletePort(port) };
  }
  const isAsAsked =
    row.mtu_request === request.mtu &&
    hasMarks(port.external_ids, portMarks(request)) &&
    hasMarks(row.external_ids, interfaceMarks(request)) &&
    settingDifferences(request.settings, port, row, view.qos).length === 0;
  // Any new configuration makes the switch try its failed ports again.
  return isAsAsked && errorOf(row) === undefined
    ? { kind: "none" }
    : { kind: "amend", operations: amendPort(request, port, row, view.qos) };
}

function refuseConflicts({ port, bridge, rivals }: PortView, request: PortRequest): void {
  if (port !== undefined && !isSameAttachment(port.external_ids, request.owner)) {
    const holder = isOurs(port.external_ids, request.owner.node)
      ? `interface ${port.external_ids.get("interface")} of allocation ${port.external_ids.get("allocation-id")}`
      : "another program";
    throw new Failure({
      code: "port-conflict",
      what: `port ${JSON.stringify(request.name)} exists already and belongs to ${holder}`,
      where: `bridge ${bridge?.name ?? "unknown"}`,
      fix: `if nothing uses it: ovs-vsctl del-port ${request.name}`,
    });
  }
  const [rival] = rivals;
  if (rival === undefined) return;
  throw new Failure({
    code: "port-conflict",
    what: `socket ${request.socketPath} is already served by port ${JSON.stringify(rival.name)}`,
    where: `port ${request.name}`,
    fix: `if nothing uses it: ovs-vsctl del-port ${rival.name}`,
  });
}

/**
 * A guest whose port was lost connects as soon as the port is back, so its flows must be possible before that. The
 * switch may not have made a bridge of its database yet.
 */
async function checkSecurable(
  context: OvsContext,
  request: PortRequest,
  view: PortView,
  signal: AbortSignal,
): Promise<void> {
  const isThere = view.bridges.some(({ name }) => name === request.bridge);
  if (securedPort(request) === undefined || !isThere) return;
  await readApplied(context, view.switch.next_cfg, [], signal);
  await context.security.connection(request.bridge, signal);
}

/** Waits until the switch has made the port, and does what is only possible or needed then. */
async function finish(
  context: OvsContext,
  request: PortRequest,
  before: PortView,
  number: number,
  signal: AbortSignal,
): Promise<PortState> {
  const byName = ["name", "==", request.name] as const;
  const queries = [portTable.select(byName), interfaceTable.select(byName)] as const;
  const [[port], [row]] = await readApplied(context, number, queries, signal);
  const isGone =
    port === undefined || row === undefined || !isSameAttachment(port.external_ids, request.owner);
  const noNumber = "it has no OpenFlow port number, so its bridge does not work";
  const error = isGone
    ? "another client removed it at the same time"
    : (errorOf(row) ?? (row.ofport === undefined ? noNumber : undefined));
  if (isGone || error !== undefined) {
    throw new Failure({
      code: "port-failed",
      what: `the switch could not make port ${JSON.stringify(request.name)}: ${error}`,
      where: `bridge ${request.bridge}, socket ${request.socketPath}`,
      fix: "read the log of ovs-vswitchd",
    });
  }
  await settleSecurity(context, request, settingsBefore(before.port), signal);
  if (request.settings.toGuest === undefined && before.qos.length > 0) {
    await removeStrayLimits(context, request.name, signal).catch((thrown: unknown) =>
      context.logger.warn(
        { port: request.name, reason: describeThrown(thrown) },
        "could not delete an unused QoS row, the next reconcile pass will",
      ),
    );
  }
  return readPortState(request.bridge, port, row);
}

/** Also where the answer to the insert never came: the port is found by its mark, not by its uuid. */
async function undo(context: OvsContext, request: PortRequest, failure: unknown): Promise<void> {
  const fields = { port: request.name, reason: describeThrown(failure) };
  try {
    const limit = AbortSignal.timeout(UNDO_LIMIT_MS);
    const isMine = (ids: ReadonlyMap<string, string>) => isSameAttachment(ids, request.owner);
    const deleted = await deleteFromDatabase(context, request.name, isMine, limit);
    await dropSecurity(context, request.name, deleted?.securedOn, limit);
    context.logger.info(fields, "removed a port that could not be made");
  } catch (thrown) {
    context.logger[isSwitchAway(thrown) ? "debug" : "warn"](
      { ...fields, err: thrown },
      "could not remove a port that could not be made; the next ADD adopts it or the reconciler removes it",
    );
  }
}
