import { constants } from "node:os";
import { describeThrown } from "../../src/failure/failure.ts";
import type { LabRun } from "./lab-run.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Ends the run and then the process (128 + signal number) on Ctrl-C and its like. A second signal only says that
 * the clean-up continues. For programs, not for tests. The returned function removes the handlers.
 */
export function endOnSignals(run: LabRun, exit: (code: number) => void = process.exit): () => void {
  let stopping = false;
  const handle = (signal: NodeJS.Signals) => {
    if (stopping) {
      run.progress("still cleaning up, a moment please");
      return;
    }
    stopping = true;
    run.progress(`${signal}: stopping and cleaning up`);
    run
      .close(new Error(`interrupted by ${signal}`))
      .catch((error: unknown) => run.progress(describeThrown(error)))
      .finally(() => exit(128 + constants.signals[signal]));
  };
  for (const signal of SIGNALS) process.on(signal, handle);
  return () => {
    for (const signal of SIGNALS) process.off(signal, handle);
  };
}
