import { describeThrown } from "../failure/failure.ts";
import { orAborted } from "../sync/deadlines.ts";

/** Something that must be so. */
export interface Check {
  readonly name: string;
  /** What is wrong, in words for the operator; undefined when nothing is. Rejecting counts as wrong too. */
  readonly problem: (signal: AbortSignal) => string | undefined | Promise<string | undefined>;
}

/** What all checks came to. */
export interface Verdict {
  readonly ok: boolean;
  /** One line for each check. */
  readonly text: string;
}

/** Runs checks at once; one that has no answer when the signal fires is wrong. */
export async function runChecks(checks: readonly Check[], signal: AbortSignal): Promise<Verdict> {
  const lines = await Promise.all(
    checks.map(async ({ name, problem }) => {
      const found = await findProblem(problem, signal);
      return {
        ok: found === undefined,
        text: found === undefined ? `${name}: ok` : `${name}: NOT OK, ${found}`,
      };
    }),
  );
  const ok = lines.every((line) => line.ok);
  return { ok, text: [ok ? "ok" : "not ok", ...lines.map((line) => line.text)].join("\n").concat("\n") };
}

async function findProblem(problem: Check["problem"], signal: AbortSignal): Promise<string | undefined> {
  try {
    // Deferred, so that one that throws at once is caught like one that rejects.
    const answer = Promise.resolve().then(() => problem(signal));
    return await orAborted(answer, signal, () => new Error("no answer in time"));
  } catch (error) {
    return describeThrown(error);
  }
}
