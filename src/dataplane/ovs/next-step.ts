import { Failure } from "../../failure/failure.ts";
import type { Operation } from "../../protocols/ovsdb/transaction.ts";
import type { PortRequest } from "../port.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment, portMarks } from "./marks.ts";
import { amendPort, deletePort, insertPort, socketColumns } from "./port-rows.ts";
import { errorOf } from "./port-state.ts";
import { SERVER_PATH } from "./rows.ts";
import { settingDifferences } from "./setting-differences.ts";
import type { View } from "./view.ts";

/** The one transaction that brings a port nearer to what is asked; `none` when it is there. */
export type Step =
  | { readonly kind: "none" }
  | { readonly kind: "insert" | "amend" | "delete"; readonly operations: readonly Operation[] };

/**
 * Pure: from what is there to what to do next. A port on the wrong bridge or socket is deleted first and inserted
 * only after the switch has let it go: ovs-vswitchd takes a row of the same name for a change in place, and ignores
 * a changed vhost-server-path without a word (measured with 3.1; netdev-dpdk registers a path once).
 * @throws Failure port-conflict where name or socket belongs to somebody else
 */
export function nextStep(view: View, request: PortRequest): Step {
  const { port, interface: row } = view;
  refuseConflicts(view, request);
  if (port === undefined) return { kind: "insert", operations: insertPort(request, view) };
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
  const asAsked =
    row.mtu_request === request.mtu &&
    hasMarks(port.external_ids, portMarks(request)) &&
    hasMarks(row.external_ids, interfaceMarks(request)) &&
    settingDifferences(request.settings, port, row, view.qos).length === 0;
  // Any new configuration makes the switch try its failed ports again.
  return asAsked && errorOf(row) === undefined
    ? { kind: "none" }
    : { kind: "amend", operations: amendPort(request, port, row, view.qos) };
}

function refuseConflicts(view: View, request: PortRequest): void {
  const { port } = view;
  if (port !== undefined && !isSameAttachment(port.external_ids, request.owner)) {
    const ours = isOurs(port.external_ids, request.owner.node);
    const holder = ours
      ? `container ${port.external_ids.get("container-id")} interface ${port.external_ids.get("interface")}`
      : "somebody else";
    throw new Failure({
      code: "port-conflict",
      what: `port ${JSON.stringify(request.name)} exists already and belongs to ${holder}`,
      where: `bridge ${view.bridge?.name ?? "unknown"}`,
      fix: `if nothing uses it: ovs-vsctl del-port ${request.name}`,
    });
  }
  const [rival] = view.rivals;
  if (rival !== undefined) {
    throw new Failure({
      code: "port-conflict",
      what: `socket ${request.socketPath} is already served by port ${JSON.stringify(rival.name)}`,
      where: `port ${request.name}`,
      fix: `if nothing uses it: ovs-vsctl del-port ${rival.name}`,
    });
  }
}
