import { guard, type Operation, type Row } from "../../protocols/ovsdb/transaction.ts";
import {
  mapValue,
  newRowReference,
  type OvsdbValue,
  setValue,
  uuidReference,
} from "../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../port.ts";
import { insertBridge } from "./bridge-rows.ts";
import { cellColumns, writeCells } from "./cell-operations.ts";
import { interfaceMarks, isServedBySwitch, MARK_KEYS, portMarks, settingsBefore } from "./marks.ts";
import { policerOf, writePolicer } from "./qos.ts";
import {
  type BridgeRow,
  type InterfaceRow,
  type PortRow,
  type QosRow,
  SERVER_PATH,
  VHOST_CLIENT,
  VHOST_SERVER,
} from "./rows.ts";
import { settingCells } from "./setting-cells.ts";
import type { View } from "./view.ts";

/** Makes interface and port and hangs them on the bridge, unless bridge, name or socket changed hands meanwhile. */
export function insertPort(request: PortRequest, view: Pick<View, "bridges" | "qos">): Operation[] {
  const { name, settings } = request;
  const path = { [SERVER_PATH]: request.socketPath };
  const byType = socketColumns(request);
  const cells = settingCells(settings, new Set());
  const limit = limitTowardsGuest(request, undefined, view.qos);
  return [
    guard("Port", [["name", "==", name]], ["name"], []),
    guard("Interface", [["options", "includes", mapValue(path)]], ["name"], []),
    ...limit.operations,
    {
      op: "insert",
      table: "Interface",
      "uuid-name": "new_interface",
      row: {
        name,
        type: byType.type,
        mtu_request: mtuValue(request),
        ...cellColumns(cells, "Interface", {
          options: byType.options,
          external_ids: interfaceMarks(request),
        }),
      },
    },
    {
      op: "insert",
      table: "Port",
      "uuid-name": "new_port",
      row: {
        name,
        interfaces: newRowReference("new_interface"),
        ...limit.columns,
        ...cellColumns(cells, "Port", { external_ids: portMarks(request) }),
      },
    },
    ...hangPort(request, view.bridges),
  ];
}

/** What an Interface row has of its socket: the switch dials the path, or serves a file of the port's own name. */
export function socketColumns(request: PortRequest): {
  readonly type: string;
  readonly options: Readonly<Record<string, string>>;
} {
  return isServedBySwitch(request)
    ? { type: VHOST_SERVER, options: {} }
    : { type: VHOST_CLIENT, options: { [SERVER_PATH]: request.socketPath } };
}

/** A bridge that is missing is made with the port; that this is wanted was checked before. */
function hangPort(request: PortRequest, bridges: readonly BridgeRow[]): Operation[] {
  const port = newRowReference("new_port");
  const bridge = bridges.find(({ name }) => name === request.bridge);
  if (bridge === undefined) return insertBridge(request.bridge, port);
  const where = [["_uuid", "==", uuidReference(bridge._uuid)]] as const;
  return [
    guard("Bridge", where, ["name"], [{ name: bridge.name }]),
    { op: "mutate", table: "Bridge", where, mutations: [["ports", "insert", port]] },
  ];
}

/** Takes the port off whatever bridge holds it, unless its owner changed meanwhile; its rows vanish with that. */
export function deletePort(port: PortRow): Operation[] {
  const reference = uuidReference(port._uuid);
  return [
    ownerGuard(port),
    {
      op: "mutate",
      table: "Bridge",
      where: [["ports", "includes", reference]],
      mutations: [["ports", "delete", reference]],
    },
  ];
}

/**
 * Brings MTU, settings and marks of our port to what is asked. What others set, and we never, stays: their keys in
 * map columns, and columns of settings that are not asked for.
 */
export function amendPort(
  request: PortRequest,
  port: PortRow,
  row: InterfaceRow,
  qos: readonly QosRow[],
): Operation[] {
  const cells = settingCells(request.settings, settingsBefore(port.external_ids));
  const limit = limitTowardsGuest(request, port, qos);
  return [
    ownerGuard(port),
    ...limit.operations,
    {
      op: "update",
      table: "Interface",
      where: [["_uuid", "==", uuidReference(row._uuid)]],
      row: { mtu_request: mtuValue(request) },
    },
    ...writeCells(cells, "Interface", row._uuid),
    ...writeCells(cells, "Port", port._uuid, limit.columns),
    replaceMarks("Interface", row._uuid, interfaceMarks(request)),
    replaceMarks("Port", port._uuid, portMarks(request)),
  ];
}

/** Operations on QoS rows, and what the Port row is to hold of them. */
function limitTowardsGuest(
  request: PortRequest,
  port: PortRow | undefined,
  rows: readonly QosRow[],
): { readonly operations: readonly Operation[]; readonly columns: Row } {
  const policer = policerOf(request.settings);
  if (policer !== undefined) {
    const { name, owner } = request;
    const { operations, qos } = writePolicer(policer, { name, node: owner.node, qos: port?.qos }, rows);
    return { operations, columns: { qos } };
  }
  const ours = port?.qos !== undefined && rows.some(({ _uuid }) => _uuid === port.qos);
  return { operations: [], columns: ours ? { qos: setValue([]) } : {} };
}

function ownerGuard(port: PortRow): Operation {
  const row: Row = { external_ids: mapValue(Object.fromEntries(port.external_ids)) };
  return guard("Port", [["_uuid", "==", uuidReference(port._uuid)]], ["external_ids"], [row]);
}

function replaceMarks(table: string, uuid: string, marks: Readonly<Record<string, string>>): Operation {
  return {
    op: "mutate",
    table,
    where: [["_uuid", "==", uuidReference(uuid)]],
    mutations: [
      ["external_ids", "delete", setValue(MARK_KEYS)],
      ["external_ids", "insert", mapValue(marks)],
    ],
  };
}

function mtuValue(request: PortRequest): OvsdbValue {
  return setValue(request.mtu === undefined ? [] : [request.mtu]);
}
