import { Failure } from "../../failure/failure.ts";
import type { OvsdbClient } from "../../ovsdb/client.ts";
import { requireCommitted } from "../../ovsdb/transaction.ts";
import { mapValue } from "../../ovsdb/values.ts";
import {
  type BridgeRow,
  bridgeTable,
  type InterfaceRow,
  interfaceTable,
  type PortRow,
  portTable,
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
}

/** Reads the view of one port name; without a socket path there are no rivals. */
export async function readView(
  client: OvsdbClient,
  name: string,
  socketPath: string | undefined,
  signal: AbortSignal,
): Promise<View> {
  const operations = [
    switchTable.select([]),
    bridgeTable.select([]),
    portTable.select([["name", "==", name]]),
    interfaceTable.select([["name", "==", name]]),
    ...(socketPath === undefined
      ? []
      : [interfaceTable.select([["options", "includes", mapValue({ [SERVER_PATH]: socketPath })]])]),
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
  };
}

function onlyRow(rows: readonly SwitchRow[]): SwitchRow {
  const [row] = rows;
  if (row !== undefined) return row;
  throw new Failure({
    code: "dataplane-unfit",
    what: "the switch's database is empty",
    where: "table Open_vSwitch",
    fix: "start ovs-vswitchd, or run ovs-vsctl init",
  });
}
