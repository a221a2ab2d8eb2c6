import { guard, type Operation, type Row } from "../../../protocols/ovsdb/transaction.ts";
import {
  mapValue,
  newRowReference,
  type OvsdbValue,
  setValue,
  uuidReference,
} from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { settingCells, writeCells } from "../settings/cells.ts";
import { writeLimit } from "../settings/guest-limit.ts";
import {
  type BridgeRow,
  type InterfaceRow,
  type PortRow,
  type QosRow,
  SERVER_PATH,
  VHOST_CLIENT,
  VHOST_SERVER,
} from "../tables.ts";
import { interfaceMarks, isServedBySwitch, MARK_KEYS, OWNER, portMarks, settingsBefore } from "./marks.ts";

/** Makes interface and port and adds them to the bridge, unless bridge, name or socket changed hands meanwhile. */
export function insertPort(
  request: PortRequest,
  bridges: readonly BridgeRow[],
  qos: readonly QosRow[],
): Operation[] {
  const { name, socketPath } = request;
  const { type, options } = socketColumns(request);
  const [port, row] = [newRowReference("new_port"), newRowReference("new_interface")];
  return [
    guard("Port", [["name", "==", name]], ["name"], []),
    guard("Interface", [["options", "includes", mapValue({ [SERVER_PATH]: socketPath })]], ["name"], []),
    insert("Interface", "new_interface", { name, type, options: mapValue(options) }),
    insert("Port", "new_port", { name, interfaces: row }),
    ...addToBridge(request.bridge, port, bridges),
    ...writePort(request, { port, row, qos }),
  ];
}

/** Columns of the Interface row for its socket: the switch dials the path, or serves a file of the port's name. */
export function socketColumns(request: PortRequest): {
  readonly type: string;
  readonly options: Readonly<Record<string, string>>;
} {
  return isServedBySwitch(request)
    ? { type: VHOST_SERVER, options: {} }
    : { type: VHOST_CLIENT, options: { [SERVER_PATH]: request.socketPath } };
}

/** A missing bridge is made with the port; that the request wants so was checked before. */
function addToBridge(name: string, port: OvsdbValue, bridges: readonly BridgeRow[]): Operation[] {
  const bridge = bridges.find((row) => row.name === name);
  if (bridge === undefined) return insertBridge(name, port);
  const where = [["_uuid", "==", uuidReference(bridge._uuid)]] as const;
  return [
    guard("Bridge", where, ["name"], [{ name }]),
    { op: "mutate", table: "Bridge", where, mutations: [["ports", "insert", port]] },
  ];
}

/**
 * Makes a bridge of the userspace datapath with its own port, as `ovs-vsctl add-br` does, that already holds `port`;
 * aborts where there is one of that name meanwhile. The owner in external_ids is for people.
 */
function insertBridge(name: string, port: OvsdbValue): Operation[] {
  const bridges = newRowReference("new_bridge");
  return [
    guard("Bridge", [["name", "==", name]], ["name"], []),
    insert("Interface", "new_bridge_interface", { name, type: "internal" }),
    insert("Port", "new_bridge_port", { name, interfaces: newRowReference("new_bridge_interface") }),
    insert("Bridge", "new_bridge", {
      name,
      datapath_type: "netdev",
      ports: setValue([newRowReference("new_bridge_port"), port]),
      external_ids: mapValue({ owner: OWNER }),
    }),
    { op: "mutate", table: "Open_vSwitch", where: [], mutations: [["bridges", "insert", bridges]] },
  ];
}

const insert = (table: string, name: string, row: Row): Operation => ({
  op: "insert",
  table,
  "uuid-name": name,
  row,
});

/** Removes the port from the bridge that holds it, unless its owner changed meanwhile; its rows vanish with that. */
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
 * Brings MTU, settings and marks of our port to the requested ones. What only others set stays: their keys in
 * map columns, and columns of settings that are not asked for.
 */
export function amendPort(
  request: PortRequest,
  before: PortRow,
  interfaceRow: InterfaceRow,
  qos: readonly QosRow[],
): Operation[] {
  const [port, row] = [uuidReference(before._uuid), uuidReference(interfaceRow._uuid)];
  return [ownerGuard(before), ...writePort(request, { port, row, qos }, before)];
}

/** Writes MTU, settings and marks into the two rows of a port, which are references. */
function writePort(
  request: PortRequest,
  {
    port,
    row,
    qos,
  }: { readonly port: OvsdbValue; readonly row: OvsdbValue; readonly qos: readonly QosRow[] },
  before?: PortRow,
): Operation[] {
  const cells = settingCells(request.settings, settingsBefore(before));
  const limit = writeLimit(request, before?.qos, qos);
  const mtu = setValue(request.mtu === undefined ? [] : [request.mtu]);
  return [
    ...limit.operations,
    ...writeCells(cells, "Interface", row, { mtu_request: mtu }),
    ...writeCells(cells, "Port", port, limit.columns),
    replaceMarks("Interface", row, interfaceMarks(request)),
    replaceMarks("Port", port, portMarks(request)),
  ];
}

function ownerGuard(port: PortRow): Operation {
  const row: Row = { external_ids: mapValue(Object.fromEntries(port.external_ids)) };
  return guard("Port", [["_uuid", "==", uuidReference(port._uuid)]], ["external_ids"], [row]);
}

function replaceMarks(
  table: string,
  reference: OvsdbValue,
  marks: Readonly<Record<string, string>>,
): Operation {
  return {
    op: "mutate",
    table,
    where: [["_uuid", "==", reference]],
    mutations: [
      ["external_ids", "delete", setValue(MARK_KEYS)],
      ["external_ids", "insert", mapValue(marks)],
    ],
  };
}
