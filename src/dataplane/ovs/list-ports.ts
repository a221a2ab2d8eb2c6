import { setImmediate as nextTurn } from "node:timers/promises";
import type { Condition, Operation, OperationResult } from "../../protocols/ovsdb/transaction.ts";
import { requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import { mapValue } from "../../protocols/ovsdb/values.ts";
import type { PortState } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { OWNER } from "./marks.ts";
import { readPortState } from "./port-state.ts";
import {
  bridgeTable,
  type InterfaceRow,
  interfaceTable,
  type PortRow,
  portTable,
  VHOST_CLIENT,
  VHOST_SERVER,
} from "./rows.ts";

/** A table of interfaces, with whatever columns. */
interface InterfaceReader<Row extends InterfaceRow> {
  select(where: readonly Condition[]): Operation;
  read(result: OperationResult | undefined): readonly Row[];
}

/** A port of this node with its bridge and its interface; without the latter while a transaction of others is half done. */
export interface OwnPort<Row extends InterfaceRow> {
  /** Name, empty where no bridge holds it. */
  readonly bridge: string;
  readonly port: PortRow;
  readonly interface: Row | undefined;
}

/** {@link Dataplane.listPorts}. */
export async function listPorts(context: OvsContext, signal: AbortSignal): Promise<readonly PortState[]> {
  const ports = await readOwnPorts(context, interfaceTable, signal);
  return ports.map(({ bridge, port, interface: row }) => readPortState(bridge, port, row));
}

/** This node's ports, in one transaction, so that no port is seen half. */
export async function readOwnPorts<Row extends InterfaceRow>(
  context: OvsContext,
  table: InterfaceReader<Row>,
  signal: AbortSignal,
): Promise<readonly OwnPort<Row>[]> {
  const mark = mapValue({ owner: OWNER, node: context.node });
  const operations = [
    bridgeTable.select([]),
    portTable.select([["external_ids", "includes", mark]]),
    table.select([["type", "==", VHOST_CLIENT]]),
    table.select([["type", "==", VHOST_SERVER]]),
  ];
  const results = requireCommitted(operations, await context.client.transact(operations, signal));
  const bridgeOf = new Map(
    bridgeTable.read(results[0]).flatMap((bridge) => bridge.ports.map((port) => [port, bridge.name])),
  );
  const interfaces = new Map<string, Row>();
  for (const result of [results[2], results[3]]) {
    for await (const row of readInTurns(table, result)) interfaces.set(row._uuid, row);
  }
  return portTable.read(results[1]).map((port) => ({
    bridge: bridgeOf.get(port._uuid) ?? "",
    port,
    interface: interfaces.get(port.interfaces[0] ?? ""),
  }));
}

/** Rows between two turns of the event loop: with counters, a row takes up to 0.1 ms. */
const AT_ONCE = 50;

/** Rows as they are read, so that a thousand ports hold nobody up. */
async function* readInTurns<Row extends InterfaceRow>(
  table: InterfaceReader<Row>,
  result: OperationResult | undefined,
): AsyncGenerator<Row> {
  const rows = result?.rows ?? [];
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    if (from > 0) await nextTurn();
    yield* table.read({ rows: rows.slice(from, from + AT_ONCE), count: 0 });
  }
}
