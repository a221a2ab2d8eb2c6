import { Failure } from "../../failure/failure.ts";
import type { OvsdbClient } from "../../protocols/ovsdb/connection.ts";
import { requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import { mapValue } from "../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../port.ts";
import { qosMarks } from "./qos.ts";
import {
  type BridgeRow,
  bridgeTable,
  type InterfaceRow,
  interfaceTable,
  type PortRow,
  portTable,
  type QosRow,
  qosTable,
  SERVER_PATH,
  type SwitchRow,
  switchTable,
} from "./rows.ts";

/** All that the verbs need to know of the switch before they touch one port, read in one transaction. */
export interface View {
  readonly switch: SwitchRow;
  readonly bridges: readonly BridgeRow[];
  /** The port of that name, whoever owns it, with its bridge and its (first) interface. */
  readonly port: PortRow | undefined;
  readonly bridge: BridgeRow | undefined;
  readonly interface: InterfaceRow | undefined;
  /** Interfaces on the same socket under another name. */
  readonly rivals: readonly InterfaceRow[];
  /** QoS rows that we made for a port of that name, whether one refers to them or not. */
  readonly qos: readonly QosRow[];
}

/** Reads the view of the port that is asked for. */
export async function readView(
  client: OvsdbClient,
  { name, socketPath, owner }: PortRequest,
  signal: AbortSignal,
): Promise<View> {
  const operations = [
    switchTable.select([]),
    bridgeTable.select([]),
    portTable.select([["name", "==", name]]),
    interfaceTable.select([["name", "==", name]]),
    interfaceTable.select([["options", "includes", mapValue({ [SERVER_PATH]: socketPath })]]),
    qosTable.select([["external_ids", "includes", mapValue(qosMarks(owner.node, name))]]),
  ];
  const results = requireCommitted(operations, await client.transact(operations, signal));
  const bridges = bridgeTable.read(results[1]);
  const port = portTable.read(results[2])[0];
  return {
    switch: onlyRow(switchTable.read(results[0])),
    bridges,
    port,
    bridge: port && bridges.find((bridge) => bridge.ports.includes(port._uuid)),
    interface: interfaceTable.read(results[3]).find((row) => port?.interfaces.includes(row._uuid)),
    rivals: interfaceTable.read(results[4]).filter((row) => row.name !== name),
    qos: qosTable.read(results[5]),
  };
}

function onlyRow(rows: readonly SwitchRow[]): SwitchRow {
  const [row] = rows;
  if (row !== undefined) return row;
  throw new Failure({
    code: "dataplane-misconfigured",
    what: "the switch's database is empty",
    where: "table Open_vSwitch",
    fix: "start ovs-vswitchd, or run ovs-vsctl init",
  });
}
