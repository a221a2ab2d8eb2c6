import { Failure } from "../../../failure/failure.ts";
import type { OvsdbClient } from "../../../protocols/ovsdb/connection.ts";
import { mapValue } from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { readRows } from "../database.ts";
import { limitMarks } from "../settings/guest-limit.ts";
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
} from "../tables.ts";

/** All that has to be known of the switch to decide about one port, read in one transaction. */
export interface PortView {
  readonly switch: SwitchRow;
  readonly bridges: readonly BridgeRow[];
  /** The port of that name, of any owner, with its bridge and its (first) interface. */
  readonly port: PortRow | undefined;
  readonly bridge: BridgeRow | undefined;
  readonly interface: InterfaceRow | undefined;
  /** Interfaces on the same socket under another name. */
  readonly rivals: readonly InterfaceRow[];
  /** QoS rows that we made for a port of that name, whether one refers to them or not. */
  readonly qos: readonly QosRow[];
}

/** @throws Failure dataplane-misconfigured where the database is empty; dataplane-* */
export async function readPortView(
  client: OvsdbClient,
  { name, socketPath, owner }: PortRequest,
  signal: AbortSignal,
): Promise<PortView> {
  const [[switchRow], bridges, [port], interfaces, sameSocket, qos] = await readRows(
    client,
    [
      switchTable.select(),
      bridgeTable.select(),
      portTable.select(["name", "==", name]),
      interfaceTable.select(["name", "==", name]),
      interfaceTable.select(["options", "includes", mapValue({ [SERVER_PATH]: socketPath })]),
      qosTable.select(["external_ids", "includes", mapValue(limitMarks(owner.node, name))]),
    ],
    signal,
  );
  if (switchRow === undefined) {
    throw new Failure({
      code: "dataplane-misconfigured",
      what: "the switch's database is empty",
      where: "table Open_vSwitch",
      fix: "start ovs-vswitchd, or run ovs-vsctl init",
    });
  }
  return {
    switch: switchRow,
    bridges,
    port,
    bridge: port && bridges.find((bridge) => bridge.ports.includes(port._uuid)),
    interface: interfaces.find((row) => port?.interfaces.includes(row._uuid)),
    rivals: sameSocket.filter((row) => row.name !== name),
    qos,
  };
}
