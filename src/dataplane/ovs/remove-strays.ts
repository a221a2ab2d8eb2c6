import { lostRace, requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import { mapValue, setValue } from "../../protocols/ovsdb/values.ts";
import type { OvsContext } from "./context.ts";
import { deleteUnusedQos, qosMarks } from "./qos.ts";
import { portTable, qosTable } from "./rows.ts";

/**
 * {@link Dataplane.removeStrays}: QoS rows with this node's mark that no port refers to, because somebody else
 * removed the port, or because we stopped half-way. A row that a port of somebody refers to stays.
 * @param port only those that were made for the port of this name
 */
export async function removeStrays(
  context: OvsContext,
  port: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const look = [
    qosTable.select([["external_ids", "includes", mapValue(qosMarks(context.node, port))]]),
    portTable.select([["qos", "!=", setValue([])]]),
  ];
  const results = requireCommitted(look, await context.client.transact(look, signal));
  const used = new Set(portTable.read(results[1]).map(({ qos }) => qos));
  let removed = 0;
  for (const row of qosTable.read(results[0])) {
    if (used.has(row._uuid)) continue;
    const operations = deleteUnusedQos(row);
    const outcome = await context.client.transact(operations, signal);
    // A port has taken it meanwhile.
    if (lostRace(operations, outcome)) continue;
    removed += requireCommitted(operations, outcome)[1]?.count ?? 0;
  }
  return removed;
}
