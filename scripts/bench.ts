// npm run bench: how fast and how small, against the way it is done elsewhere where there is one.
import { parseArgs } from "node:util";
import { Failure, toFailure } from "../src/failure/failure.ts";
import type { Suite } from "../test/bench/bench-suite.ts";
import { figuresTable } from "../test/bench/figures-table.ts";
import { describeMachine } from "../test/bench/machine-description.ts";
import type { Figure } from "../test/bench/measurement.ts";
import { SUITES } from "../test/bench/suites.ts";
import { type LabRun, openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { buildAll } from "./build/build-all.ts";

const NAMES = SUITES.map(({ name }) => name).join(", ");
const USAGE = `npm run bench [-- --only=SUITE] [--json]

Takes figures of the daemon and the CNI executable on a real OVS-DPDK. docs/performance.md explains them.
Needs Debian 12, root, 2 GiB of free memory; installs the Debian packages that are missing.

  --only=SUITE  this suite alone (may be repeated): ${NAMES}
  --json        print the figures as a JSON array in the last line, instead of tables
`;

const progress = (line: string) => console.error(`· ${line}`);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string", multiple: true },
      json: { type: "boolean" },
      help: { type: "boolean" },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const suites = chosenSuites(values.only);
  await requireMachine();
  await inRun(ensurePackages);
  progress("build");
  await buildAll();
  const machine = await describeMachine();
  for (const line of machine) values.json ? progress(line) : console.log(line);

  const figures: Figure[] = [];
  for (const suite of suites) {
    // A run for each, so that nothing of one suite is there when the next is measured.
    const taken = await inRun(async (run) => {
      progress(`${suite.name}: start of the switch and the daemon`);
      return suite.figures({ run });
    });
    figures.push(...taken);
    if (!values.json) console.log(`\n${heading(suite)}\n${figuresTable(taken)}`);
  }
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

/** Does some work in a run that gives everything back, also when it fails or is interrupted. */
async function inRun<Result>(work: (run: LabRun) => Promise<Result>): Promise<Result> {
  const run = await openLabRun({ progress });
  const forget = endOnSignals(run);
  try {
    return await work(run);
  } finally {
    await run.close();
    forget();
  }
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`bench: ${failure.code}: ${failure.message}`);
  if (failure.code === "internal" && failure.cause instanceof Error) console.error(failure.cause.stack);
  process.exitCode = 1;
});
