import { requireCommitted } from "../../ovsdb/transaction.ts";
import { mapValue } from "../../ovsdb/values.ts";
import type { PortState } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { OWNER } from "./marks.ts";
import { readPortState } from "./port-state.ts";
import { bridgeTable, interfaceTable, portTable, VHOST_CLIENT, VHOST_SERVER } from "./rows.ts";

/** {@link Dataplane.listPorts}, in one transaction, so that no port is seen half. */
export async function listPorts(context: OvsContext, signal: AbortSignal): Promise<readonly PortState[]> {
  const mark = mapValue({ owner: OWNER, node: context.node });
  const operations = [
    bridgeTable.select([]),
    portTable.select([["external_ids", "includes", mark]]),
    interfaceTable.select([["type", "==", VHOST_CLIENT]]),
    interfaceTable.select([["type", "==", VHOST_SERVER]]),
  ];
  const results = requireCommitted(operations, await context.client.transact(operations, signal));
  const bridgeOf = new Map(
    bridgeTable.read(results[0]).flatMap((bridge) => bridge.ports.map((port) => [port, bridge.name])),
  );
  const rows = [results[2], results[3]].flatMap((result) => interfaceTable.read(result));
  const interfaces = new Map(rows.map((row) => [row._uuid, row]));
  return portTable
    .read(results[1])
    .map((port) =>
      readPortState(bridgeOf.get(port._uuid) ?? "", port, interfaces.get(port.interfaces[0] ?? "")),
    );
}
