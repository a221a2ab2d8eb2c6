import * as z from "zod";
import { Failure } from "../../failure/failure.ts";
import { excerpt } from "./message.ts";
import type { OvsdbValue } from "./values.ts";

/** A clause of `where`: column, function, value. */
export type Condition = readonly [column: string, compare: "==" | "!=" | "<" | "includes", value: OvsdbValue];

/** A clause of `mutate`: column, mutator, value. */
type Mutation = readonly [column: string, mutator: "+=" | "insert" | "delete", value: OvsdbValue];

/** Columns to write. */
export type Row = Readonly<Record<string, OvsdbValue>>;

interface Wait {
  readonly op: "wait";
  readonly timeout?: number;
  readonly columns: readonly string[];
  readonly until: "==";
  readonly rows: readonly Row[];
}

/** An operation of `transact` (RFC 7047 section 5.2), of those that we need. */
export type Operation = { readonly table: string } & (
  | { readonly op: "insert"; readonly row: Row; readonly "uuid-name": string }
  | ({ readonly where: readonly Condition[] } & (
      | { readonly op: "select"; readonly columns: readonly string[] }
      | { readonly op: "update"; readonly row: Row }
      | { readonly op: "mutate"; readonly mutations: readonly Mutation[] }
      | { readonly op: "delete" }
      | Wait
    ))
);

/** Aborts the transaction at once unless the selected rows are exactly these. */
export function guard(
  table: string,
  where: readonly Condition[],
  columns: readonly string[],
  rows: readonly Row[],
): Operation {
  return { op: "wait", timeout: 0, table, where, columns, until: "==", rows };
}

/** What one operation gave: rows of a select, count of a change, uuid of an insert. */
export interface OperationResult {
  readonly rows: readonly unknown[];
  readonly count: number;
}

/** How a transaction ended. One that did not commit has changed nothing. */
export type TransactionOutcome =
  | { readonly committed: true; readonly results: readonly OperationResult[] }
  | {
      readonly committed: false;
      /** Index of the operation that failed; the number of operations when the commit itself did. */
      readonly failedAt: number;
      readonly error: string;
      readonly details: string;
    };

const resultShape = z.object({
  rows: z.array(z.unknown()).default([]),
  count: z.number().default(0),
  error: z.string().optional(),
  details: z.string().default(""),
});

/**
 * Reads the answer to `transact`: one element per operation, null for those after a failed one, and one more
 * element when the operations went well and the commit failed (RFC 7047 section 4.1.3).
 * @throws Failure dataplane-protocol where the answer does not fit the operations
 */
export function readOutcome(operations: readonly Operation[], answer: unknown): TransactionOutcome {
  const parsed = z.array(resultShape.nullable()).safeParse(answer);
  const given = parsed.data ?? [];
  const failedAt = given.findIndex((result) => result?.error !== undefined);
  const failed = given[failedAt];
  if (failed?.error !== undefined) {
    return { committed: false, failedAt, error: failed.error, details: failed.details };
  }
  const results = given.filter((result) => result !== null);
  if (parsed.success && results.length === operations.length) return { committed: true, results };
  throw new Failure({
    code: "dataplane-protocol",
    what: `the answer to a transaction of ${operations.length} operations is malformed: ${excerpt(answer)}`,
    cause: parsed.error,
  });
}

/**
 * Whether another client changed what this transaction was built on: a guard did not hold, or a row of the same
 * unique name was committed in between. Such a transaction is to be built again from what is there now.
 */
export function lostRace(operations: readonly Operation[], outcome: TransactionOutcome): boolean {
  if (outcome.committed) return false;
  if (operations[outcome.failedAt]?.op === "wait") return outcome.error === "timed out";
  return (
    outcome.failedAt >= operations.length &&
    (outcome.error === "constraint violation" || outcome.error === "referential integrity violation")
  );
}

/**
 * The results of a transaction that has no reason to fail.
 * @throws Failure dataplane-protocol with the database's words where it did
 */
export function requireCommitted(
  operations: readonly Operation[],
  outcome: TransactionOutcome,
): readonly OperationResult[] {
  if (outcome.committed) return outcome.results;
  const operation = operations[outcome.failedAt];
  const { error, details, failedAt } = outcome;
  throw new Failure({
    code: "dataplane-protocol",
    what: `the switch's database refused a transaction: ${[error, details].filter(Boolean).join(": ")}`,
    where:
      operation === undefined ? "at commit" : `${operation.op} ${operation.table}, operation ${failedAt}`,
  });
}
