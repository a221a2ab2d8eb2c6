// npm run bench: how fast and how small, against the way it is done elsewhere where there is one.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { Failure } from "../src/failure/failure.ts";
import type { Suite } from "../test/bench/bench-suite.ts";
import { figuresTable } from "../test/bench/figures-table.ts";
import { describeMachine } from "../test/bench/machine-description.ts";
import type { Figure } from "../test/bench/measurement.ts";
import { SUITES } from "../test/bench/suites.ts";
import { buildStep } from "./build/build-all.ts";
import { inLabRun, installPackages } from "./in-lab-run.ts";
import { Narrator } from "./narrator.mjs";

const NAMES = SUITES.map(({ name }) => name).join(", ");

async function main(values: { readonly only?: string[]; readonly json?: true }): Promise<void> {
  const suites = chosenSuites(values.only);
  const narrator = new Narrator(process.stderr, `dist/durations/bench-${suites.length}.json`);
  await inLabRun(narrator, (run) => installPackages(run, narrator));
  await buildStep(narrator);
  const machine = await describeMachine();
  for (const line of machine) values.json ? narrator.say(line) : console.log(line);

  const figures: Figure[] = [];
  for (const [index, suite] of suites.entries()) {
    // A run for each, so that nothing of one suite is there when the next is measured.
    const doing = `suite ${index + 1} of ${suites.length}`;
    const taken = await inLabRun(narrator, (run) =>
      narrator.step(suite.name, doing, async () => ({ result: await suite.figures({ run }) })),
    );
    figures.push(...taken);
    if (!values.json) console.log(`\n${heading(suite)}\n${figuresTable(taken)}`);
  }
  narrator.remember();
  if (values.json) console.log(JSON.stringify(figures));
}

function chosenSuites(only: readonly string[] | undefined): readonly Suite[] {
  if (only === undefined) return SUITES;
  const unknown = only.filter((name) => !SUITES.some((suite) => suite.name === name));
  if (unknown.length === 0) return SUITES.filter(({ name }) => only.includes(name));
  throw new Failure({
    code: "invalid-request",
    what: `there is no suite ${unknown.map((name) => JSON.stringify(name)).join(", ")}`,
    where: "--only",
    fix: `the suites are: ${NAMES}`,
  });
}

function heading({ name, peer }: Suite): string {
  return peer === null ? name : `${name}\npeer: ${peer}`;
}

const program = programOf(
  "npm run bench --",
  `Takes figures of the daemon and the CNI executable on a real OVS-DPDK. docs/performance.md explains them.
Needs Debian 12, root, 2 GiB of free memory; installs the Debian packages that are missing.`,
)
  .option("--only <suites...>", `these suites alone: ${NAMES}`)
  .option("--json", "print the figures as a JSON array in the last line, instead of tables")
  .action(main);
await runProgram(program);
