import { describeThrown } from "../../failure/failure.ts";
import type { Readiness } from "../dataplane.ts";
import { isVswitchdRunning, type OvsContext, readApplied, readRows } from "./database.ts";
import { bridgeProblem } from "./misconfiguration.ts";
import { bridgeTable, releaseTable, switchTable } from "./tables.ts";

/**
 * {@link Dataplane.probe}. It changes nothing in the database, because every change, however small, makes
 * ovs-vswitchd go through its whole configuration again.
 */
export async function probe(context: OvsContext, bridge: string, signal: AbortSignal): Promise<Readiness> {
  try {
    const reason = await findProblem(context, bridge, signal);
    return reason === undefined ? { ready: true } : { ready: false, reason };
  } catch (thrown) {
    return { ready: false, reason: describeThrown(thrown) };
  }
}

async function findProblem(context: OvsContext, bridge: string, signal: AbortSignal) {
  if (!(await isVswitchdRunning(context, signal))) return "ovs-vswitchd is not running";
  const queries = [switchTable.select(), bridgeTable.select()] as const;
  const [[row], bridges] = await readRows(context.client, queries, signal);
  if (row === undefined) return "the switch's database is empty";
  const problem = bridgeProblem({ switch: row, bridges }, bridge);
  if (problem !== undefined) return problem.message;
  await readApplied(context, row.next_cfg, [], signal);
  return undefined;
}

/** {@link Dataplane.version}, as the database has it. */
export async function version(context: OvsContext, signal: AbortSignal): Promise<string> {
  const [[row]] = await readRows(context.client, [releaseTable.select()], signal);
  // ovs-ctl writes the release, so it is missing where ovs-vswitchd was started without it.
  const release = row?.ovs_version === undefined ? "Open vSwitch" : `Open vSwitch ${row.ovs_version}`;
  return `${release}, ${row?.dpdk_version ?? "no DPDK"}`;
}
