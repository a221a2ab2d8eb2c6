import { type LabRun, openLabRun } from "../test/machine/lab-run.ts";
import type { Purpose } from "../test/machine/package-list.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import type { Narrator } from "./narrator.mjs";

/** Does work in a run that gives everything back, also when it fails or is interrupted. */
export async function inLabRun<Result>(
  narrator: Narrator,
  work: (run: LabRun) => Promise<Result>,
): Promise<Result> {
  await requireMachine();
  const run = await openLabRun({ narrator });
  const forget = endOnSignals(run);
  try {
    return await work(run);
  } finally {
    await run.close();
    forget();
  }
}

/** Installs the missing packages as a step. */
export function installPackages(run: LabRun, narrator: Narrator, purpose?: Purpose): Promise<void> {
  return narrator.step("packages", "Debian packages", () => ensurePackages(run, purpose));
}
