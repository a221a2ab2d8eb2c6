import { describeThrown } from "../../failure/failure.ts";
import { requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import type { Readiness } from "../dataplane.ts";
import { isVswitchdRunning, readApplied } from "./applied.ts";
import type { OvsContext } from "./context.ts";
import { whyUnfit } from "./fitness.ts";
import { bridgeTable, switchTable } from "./rows.ts";

/**
 * {@link Dataplane.probe}. It changes nothing in the database, because every change, however small, makes
 * ovs-vswitchd go through its whole configuration again.
 */
export async function probe(context: OvsContext, bridge: string, signal: AbortSignal): Promise<Readiness> {
  try {
    if (!(await isVswitchdRunning(context, signal))) return notReady("ovs-vswitchd is not running");
    const operations = [switchTable.select([]), bridgeTable.select([])];
    const results = requireCommitted(operations, await context.client.transact(operations, signal));
    const [row] = switchTable.read(results[0]);
    if (row === undefined) return notReady("the switch's database is empty");
    const unfit = whyUnfit({ switch: row, bridges: bridgeTable.read(results[1]) }, bridge);
    if (unfit !== undefined) return notReady(unfit.message);
    await readApplied(context, row.next_cfg, [], signal);
    return { ready: true };
  } catch (thrown) {
    return notReady(describeThrown(thrown));
  }
}

function notReady(reason: string): Readiness {
  return { ready: false, reason };
}
