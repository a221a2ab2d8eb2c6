import { describeThrown, Failure } from "../../failure/failure.ts";
import { isLockHeld } from "../../protocols/ovsdb/lock.ts";
import { type Operation, type OperationResult, requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import type { OvsContext } from "./context.ts";
import { switchTable } from "./rows.ts";

/** The lock that ovs-vswitchd holds on the database as long as it runs. */
const VSWITCHD_LOCK = "ovs_vswitchd";
const DIAGNOSIS_LIMIT_MS = 1000;

/** Ends a transaction: asks the switch to take notice, and reads the number that it will report back. */
export const requestConfiguration: readonly Operation[] = [
  { op: "mutate", table: "Open_vSwitch", where: [], mutations: [["next_cfg", "+=", 1]] },
  switchTable.select([]),
];

/** The configuration number that {@link requestConfiguration} gave. */
export function requestedConfiguration(results: readonly OperationResult[]): number {
  const row = switchTable.read(results.at(-1))[0];
  if (row !== undefined) return row.next_cfg;
  throw new Failure({ code: "dataplane-protocol", what: "the table Open_vSwitch lost its row" });
}

/** Whether ovs-vswitchd runs on this database. It may still be stuck: see {@link readApplied}. */
export function isVswitchdRunning(context: OvsContext, signal: AbortSignal): Promise<boolean> {
  return isLockHeld(context.databaseSocket, VSWITCHD_LOCK, signal);
}

/**
 * Waits, in the database itself, until the switch reports that it applied configuration `number`, and reads rows as
 * they were at that moment: one request, no polling, no monitor.
 * @throws Failure dataplane-timeout that tells a switch which is down from one which is slow
 */
export async function readApplied(
  context: OvsContext,
  number: number,
  reads: readonly Operation[],
  signal: AbortSignal,
): Promise<readonly OperationResult[]> {
  const operations: Operation[] = [
    {
      op: "wait",
      table: switchTable.name,
      where: [["cur_cfg", "<", number]],
      columns: ["cur_cfg"],
      until: "==",
      rows: [],
    },
    ...reads,
  ];
  try {
    return requireCommitted(operations, await context.client.transact(operations, signal)).slice(1);
  } catch (thrown) {
    if (!(thrown instanceof Failure) || thrown.code !== "dataplane-timeout") throw thrown;
    throw new Failure({
      code: "dataplane-timeout",
      what: `${await describeVswitchd(context)}, so a change was not applied in time`,
      where: `Open_vSwitch.cur_cfg stays below ${number}`,
      fix: "check that ovs-vswitchd runs, and read its log",
      cause: thrown,
    });
  }
}

async function describeVswitchd(context: OvsContext): Promise<string> {
  try {
    const running = await isVswitchdRunning(context, AbortSignal.timeout(DIAGNOSIS_LIMIT_MS));
    return running ? "ovs-vswitchd runs but does not keep up" : "ovs-vswitchd is not running";
  } catch (thrown) {
    return `the state of ovs-vswitchd is unknown (${describeThrown(thrown)})`;
  }
}
