import * as z from "zod";
import { Failure } from "../../failure/failure.ts";
import { orAborted, whenAborted } from "../../sync/deadlines.ts";
import { connectOvsdb } from "./connection.ts";
import { excerpt } from "./message.ts";

/** What changed in one row. `old` holds the changed columns only, and is absent for rows that are new to us. */
export interface RowChange {
  readonly table: string;
  readonly uuid: string;
  readonly old?: Readonly<Record<string, unknown>> | undefined;
  /** Absent when the row is gone. */
  readonly new?: Readonly<Record<string, unknown>> | undefined;
}

/** What to watch. */
export interface MonitorOptions {
  /** Path of ovsdb-server's unix socket. */
  readonly path: string;
  readonly database: string;
  /** Columns to watch, by table. */
  readonly columns: Readonly<Record<string, readonly string[]>>;
  /** Called with all rows there are, then with every transaction's changes. */
  readonly onChanges: (changes: readonly RowChange[]) => void;
}

const rowShape = z.record(z.string(), z.unknown());
const updatesShape = z.record(
  z.string(),
  z.record(z.string(), z.object({ old: rowShape.optional(), new: rowShape.optional() })),
);

/**
 * Watches tables on a connection of its own (RFC 7047 section 4.1.5) until the signal fires; resolves then.
 * @throws Failure dataplane-unavailable or dataplane-protocol when the connection is lost: what changes until the
 *   next call is in the rows that it gives first
 */
export async function monitorTables(options: MonitorOptions, signal: AbortSignal): Promise<void> {
  const lost = Promise.withResolvers<never>();
  let isOver = false;
  const report = (updates: unknown) => {
    if (isOver) return;
    try {
      options.onChanges(readUpdates(updates));
    } catch (failure) {
      lost.reject(failure);
    }
  };
  const onNotification = (method: string, params: readonly unknown[]) => {
    // The reply with the first rows may come in one chunk with it, and is reported before.
    if (method === "update") setImmediate(report, params[1]);
  };
  const connection = await connectOvsdb(options.path, signal, onNotification);
  whenAborted(connection.lost, () => lost.reject(connection.lost.reason));
  try {
    const tables = Object.entries(options.columns).map(([table, columns]) => [table, { columns }]);
    const params = [options.database, "changes", Object.fromEntries(tables)];
    report(await connection.request("monitor", params, signal));
    await orAborted(lost.promise, signal);
  } catch (failure) {
    if (!signal.aborted) throw failure;
  } finally {
    isOver = true;
    lost.promise.catch(() => undefined);
    connection.close();
  }
}

function readUpdates(updates: unknown): RowChange[] {
  const parsed = updatesShape.safeParse(updates);
  if (!parsed.success) {
    throw new Failure({
      code: "dataplane-protocol",
      what: `the OVSDB server sent changes that we cannot read: ${excerpt(updates)}`,
      cause: parsed.error,
    });
  }
  return Object.entries(parsed.data).flatMap(([table, rows]) =>
    Object.entries(rows).map(([uuid, change]) => ({ table, uuid, ...change })),
  );
}
