import { describeThrown } from "../../src/failure/failure.ts";
import { claimLeftJournals, JOURNAL_DIRECTORY } from "./journal.ts";
import { describeTrace, undoTrace } from "./undo-trace.ts";

/** How to repair. */
export interface RepairOptions {
  readonly progress?: (line: string) => void;
  /** Default {@link JOURNAL_DIRECTORY}. */
  readonly journalDirectory?: string;
}

/**
 * Gives back what runs left that ended without a chance to (SIGKILL, power of the terminal): processes by pid and
 * start time, mounts, network namespaces, hugepages, files. Runs that still live are left alone.
 * @returns how many things were given back
 * @throws AggregateError with what could not be; it stays in the journal for the next try
 */
export async function repairLeftovers(options: RepairOptions = {}): Promise<number> {
  const progress = options.progress ?? (() => undefined);
  const errors: unknown[] = [];
  let count = 0;
  for (const { journal, traces } of claimLeftJournals(options.journalDirectory ?? JOURNAL_DIRECTORY)) {
    const failedBefore = errors.length;
    for (const { id, trace } of traces.toReversed()) {
      try {
        progress(`an earlier run left ${describeTrace(trace)}: giving it back`);
        await undoTrace(trace);
        journal.strike(id);
        count += 1;
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length === failedBefore) journal.remove();
  }
  if (errors.length > 0) {
    throw new AggregateError(errors, `leftovers remain: ${errors.map(describeThrown).join("; ")}`);
  }
  return count;
}
