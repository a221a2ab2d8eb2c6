import { describeThrown, Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { OvsdbClient } from "../../protocols/ovsdb/connection.ts";
import { isLockHeld } from "../../protocols/ovsdb/lock.ts";
import { lostRace, type Operation, requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import type { Clock } from "../../sync/clock.ts";
import { linked, within } from "../../sync/deadlines.ts";
import type { PortSecurity } from "./security/port-security.ts";
import { type Query, switchTable } from "./tables.ts";

/** What every call works with. */
export interface OvsContext {
  readonly client: OvsdbClient;
  /** Path of ovsdb-server's unix socket. */
  readonly databaseSocket: string;
  /** This node's name, part of the mark on its ports. */
  readonly node: string;
  readonly logger: Logger;
  readonly security: PortSecurity;
  readonly clock: Clock;
  /** Whether ovs-vswitchd was not running when a change was last waited for: the next wait checks that first. */
  isSwitchDown: boolean;
}

/** The lock that ovs-vswitchd holds on the database as long as it runs. */
const VSWITCHD_LOCK = "ovs_vswitchd";
const DIAGNOSIS_LIMIT_MS = 1000;
/** A switch that has not applied a change after so many milliseconds may not be running. */
const CHECK_RUNNING_MS = 1500;

type RowsOf<Queries extends readonly Query<unknown>[]> = {
  readonly [Index in keyof Queries]: Queries[Index] extends Query<infer Row> ? readonly Row[] : never;
};

/**
 * Reads rows of several tables in one transaction.
 * @param first operations to go before
 * @throws Failure dataplane-*
 */
export async function readRows<const Queries extends readonly Query<unknown>[]>(
  client: OvsdbClient,
  queries: Queries,
  signal: AbortSignal,
  first: readonly Operation[] = [],
): Promise<RowsOf<Queries>> {
  const operations = [...first, ...queries.map(({ operation }) => operation)];
  const results = requireCommitted(operations, await client.transact(operations, signal));
  return queries.map((query, index) => query.read(results[first.length + index])) as RowsOf<Queries>;
}

const switchQuery = switchTable.select();

/** A change that another client's voids is tried again; more in a row means a fight over the port. */
const ATTEMPTS = 10;

/**
 * Commits a change and asks the switch to apply it.
 * @param attempt how many this is of one change, from 1
 * @returns the configuration number that the switch will report, or the index of the operation that another client's
 *   change voided: the change is to be built again from what is there now
 * @throws Failure port-conflict where that was the last attempt; dataplane-*
 */
export async function commitChange(
  client: OvsdbClient,
  change: readonly Operation[],
  port: string,
  attempt: number,
  signal: AbortSignal,
): Promise<{ readonly number: number } | { readonly number: undefined; readonly voidedAt: number }> {
  const { name: table } = switchTable;
  const apply: Operation = { op: "mutate", table, where: [], mutations: [["next_cfg", "+=", 1]] };
  const operations = [...change, apply, switchQuery.operation];
  const outcome = await client.transact(operations, signal);
  if (outcome.committed || !lostRace(operations, outcome)) {
    const row = switchQuery.read(requireCommitted(operations, outcome).at(-1))[0];
    if (row !== undefined) return { number: row.next_cfg };
    throw new Failure({ code: "dataplane-protocol", what: "the table Open_vSwitch lost its row" });
  }
  if (attempt < ATTEMPTS) return { number: undefined, voidedAt: outcome.failedAt };
  throw new Failure({
    code: "port-conflict",
    what: `changes by other clients kept the port from being changed ${ATTEMPTS} times: ${outcome.details || outcome.error}`,
    where: `port ${port}`,
    fix: "find out who else changes it; a bridge that is to be made cannot have the name of a port",
  });
}

/** Whether ovs-vswitchd runs on this database. It may still be stuck: see {@link readApplied}. */
export function isVswitchdRunning(context: OvsContext, signal: AbortSignal): Promise<boolean> {
  return isLockHeld(context.databaseSocket, VSWITCHD_LOCK, signal);
}

/**
 * Waits, in the database itself, until the switch reports that it applied configuration `number`, and reads rows as
 * they were at that moment: one request, no monitor.
 * @throws Failure dataplane-unavailable where ovs-vswitchd is not running, within some two seconds;
 *   dataplane-timeout that says whether the switch is down or slow
 */
export async function readApplied<const Queries extends readonly Query<unknown>[]>(
  context: OvsContext,
  number: number,
  queries: Queries,
  signal: AbortSignal,
): Promise<RowsOf<Queries>> {
  const where = [["cur_cfg", "<", number]] as const;
  const { name: table } = switchTable;
  const wait: Operation = { op: "wait", table, where, columns: ["cur_cfg"], until: "==", rows: [] };
  try {
    return await linked(signal, async (limit) => {
      const applied = readRows(context.client, queries, limit, [wait]);
      const rows = await Promise.race([applied, untilSwitchIsDown(context, limit)]);
      context.isSwitchDown = false;
      return rows;
    });
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

/** Never resolves. @throws Failure dataplane-unavailable when ovs-vswitchd is seen not to run */
async function untilSwitchIsDown(context: OvsContext, signal: AbortSignal): Promise<never> {
  const { clock, databaseSocket } = context;
  const isDown = async () => {
    await clock.sleep(context.isSwitchDown ? 0 : CHECK_RUNNING_MS, signal);
    return !(await isVswitchdRunning(context, within(signal, DIAGNOSIS_LIMIT_MS)));
  };
  // A check that fails says nothing: the wait itself fails with the database, or goes on.
  while (!signal.aborted) {
    context.isSwitchDown = await isDown().catch(() => false);
    if (!context.isSwitchDown) continue;
    throw new Failure({
      code: "dataplane-unavailable",
      what: "ovs-vswitchd is not running, so it cannot apply a change",
      where: databaseSocket,
      fix: "start ovs-vswitchd, and read its log",
    });
  }
  return new Promise(() => undefined);
}

async function describeVswitchd(context: OvsContext): Promise<string> {
  try {
    const running = await isVswitchdRunning(context, AbortSignal.timeout(DIAGNOSIS_LIMIT_MS));
    return running ? "ovs-vswitchd runs but does not keep up" : "ovs-vswitchd is not running";
  } catch (thrown) {
    return `the state of ovs-vswitchd is unknown (${describeThrown(thrown)})`;
  }
}
