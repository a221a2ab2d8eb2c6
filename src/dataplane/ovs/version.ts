import { requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import type { OvsContext } from "./context.ts";
import { releaseTable } from "./rows.ts";

/** {@link Dataplane.version}, as the database has it. */
export async function version(context: OvsContext, signal: AbortSignal): Promise<string> {
  const operations = [releaseTable.select([])];
  const results = requireCommitted(operations, await context.client.transact(operations, signal));
  const [row] = releaseTable.read(results[0]);
  // Its own release is written by ovs-ctl, which is left out by who starts ovs-vswitchd by himself.
  const release = row?.ovs_version === undefined ? "Open vSwitch" : `Open vSwitch ${row.ovs_version}`;
  return `${release}, ${row?.dpdk_version ?? "no DPDK"}`;
}
