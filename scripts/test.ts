// npm test: lint, types and all tests, after installing what they need.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { inLabRun, installPackages } from "./in-lab-run.ts";
import { lintSteps } from "./lint-steps.ts";
import { Narrator } from "./narrator.mjs";
import { recap } from "./recap.ts";
import { runTool, runVitest, type ToolEnd } from "./run-tool.ts";
import { planTests, type Suite } from "./suites.ts";

/** What failed, for the end of the run. */
const failed: { readonly what: string; readonly output: string }[] = [];

interface Options {
  readonly unit?: true;
  readonly all?: true;
  readonly project?: string;
  readonly testNamePattern?: string;
}

async function main(
  files: readonly string[],
  { unit, all, project, testNamePattern }: Options,
): Promise<void> {
  const narrator = new Narrator(process.stdout, "dist/durations/test.json");
  const given = [...(testNamePattern === undefined ? [] : ["-t", testNamePattern]), ...files];
  const only = unit ? "unit" : project;
  const { suites, leftOut } =
    only === undefined
      ? planTests(all === true)
      : { suites: [{ what: only, args: ["--project", only] }], leftOut: [] };
  const step = ({ what, args }: Suite) => ({
    name: what,
    doing: `tests: ${what}`,
    args: [...args, ...given],
  });
  if (unit) {
    for (const suite of suites) note(suite.what, await runVitest(narrator, step(suite)));
    return;
  }
  await inLabRun(narrator, async (run) => {
    await installPackages(run, narrator);
    for (const one of lintSteps()) note(one.doing, await runTool(narrator, { ...one, run }));
    for (const suite of suites) note(suite.what, await runVitest(narrator, { ...step(suite), run }));
  });
  for (const reason of leftOut) narrator.say(`not run: ${reason}`);
  const times = narrator.steps.map(({ name, ms }) => `${name} ${Math.round(ms / 1000)} s`);
  narrator.say(`took: ${times.join(", ")}`);
  if (only === undefined && given.length === 0) narrator.remember();
}

/** Its failure is the run's. */
function note(what: string, { code, output }: ToolEnd): void {
  if (code === 0) return;
  process.exitCode = code;
  failed.push({ what, output });
}

await runProgram(
  programOf("npm test --", "Lint, types and all tests, after installing what they need.")
    .argument("[files...]", "test files alone; after a further --, options of vitest")
    .option("--unit", "only the tests that need nothing installed but musl-gcc")
    .option(
      "--all",
      "also the parts of which nothing changed since the last release, and each benchmark once",
    )
    .option("--project <name>", "only the tests of a project of vitest.config.ts")
    .option("-t, --testNamePattern <pattern>", "only the tests whose name matches")
    .action(main),
);
for (const { what, output } of failed) console.error(`\ntest: failed: ${what}\n${recap(output)}`);
