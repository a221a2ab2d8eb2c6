import { guard, type Operation, type Row } from "../../ovsdb/transaction.ts";
import { mapValue, newRowReference, type OvsdbValue, setValue, uuidReference } from "../../ovsdb/values.ts";
import type { PortRequest } from "../port.ts";
import { interfaceMarks, MARK_KEYS, portMarks } from "./marks.ts";
import { type BridgeRow, type InterfaceRow, type PortRow, SERVER_PATH, VHOST_CLIENT } from "./rows.ts";

/** Makes interface and port and hangs them on the bridge, unless bridge, name or socket changed hands meanwhile. */
export function insertPort(request: PortRequest, bridge: BridgeRow): Operation[] {
  const options = mapValue({ [SERVER_PATH]: request.socketPath });
  return [
    guard("Bridge", [["_uuid", "==", uuidReference(bridge._uuid)]], ["name"], [{ name: bridge.name }]),
    guard("Port", [["name", "==", request.name]], ["name"], []),
    guard("Interface", [["options", "includes", options]], ["name"], []),
    {
      op: "insert",
      table: "Interface",
      "uuid-name": "new_interface",
      row: {
        name: request.name,
        type: VHOST_CLIENT,
        options,
        mtu_request: mtuValue(request),
        external_ids: mapValue(interfaceMarks(request.owner)),
      },
    },
    {
      op: "insert",
      table: "Port",
      "uuid-name": "new_port",
      row: {
        name: request.name,
        interfaces: newRowReference("new_interface"),
        external_ids: mapValue(portMarks(request.owner)),
      },
    },
    {
      op: "mutate",
      table: "Bridge",
      where: [["_uuid", "==", uuidReference(bridge._uuid)]],
      mutations: [["ports", "insert", newRowReference("new_port")]],
    },
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

/** Brings MTU and marks of our port to what is asked, leaving the keys of others in external_ids alone. */
export function amendPort(request: PortRequest, port: PortRow, row: InterfaceRow): Operation[] {
  return [
    ownerGuard(port),
    {
      op: "update",
      table: "Interface",
      where: [["_uuid", "==", uuidReference(row._uuid)]],
      row: { mtu_request: mtuValue(request) },
    },
    replaceMarks("Interface", row._uuid, interfaceMarks(request.owner)),
    replaceMarks("Port", port._uuid, portMarks(request.owner)),
  ];
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
