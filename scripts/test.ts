// npm test: lint, types and all tests, after installing what they need. `-- --unit` runs the tests that need nothing
// installed but musl-gcc; `-- --all` runs also the parts of which nothing changed since the last release; all other
// arguments go to vitest.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { toFailure } from "../src/failure/failure.ts";
import { type LabRun, openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { buildAll } from "./build/build-all.ts";
import { recap } from "./recap.ts";
import { planTests } from "./suites.ts";

const BIN = resolve(import.meta.dirname, "../node_modules/.bin");
const VITEST = resolve(BIN, "vitest");
/** What failed, for the end of the run. */
const failed: { readonly what: string; readonly output: string }[] = [];

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const args = given.filter((arg) => arg !== "--all");
  if (args.includes("--unit")) {
    await program("unit", VITEST, ["run", "--project", "unit", ...args.filter((arg) => arg !== "--unit")]);
    return;
  }
  await requireMachine();
  const progress = (line: string) => console.log(`· ${line}`);
  const run = await openLabRun({ progress });
  const part: typeof program = async (what, path, programArgs) => {
    progress(what);
    await program(what, path, programArgs, run);
  };
  const forget = endOnSignals(run);
  try {
    await ensurePackages(run);
    await part("lint and types", process.execPath, [resolve(import.meta.dirname, "lint.ts")]);
    progress("build");
    await buildAll();
    const { suites, leftOut } = planTests(given.includes("--all"));
    if (args.includes("--project")) {
      await part(`tests: ${args.join(" ")}`, VITEST, ["run", ...args]);
      return;
    }
    for (const suite of suites) {
      await part(`tests: ${suite.what}`, VITEST, ["run", ...suite.args, ...args]);
    }
    for (const reason of leftOut) progress(`not run: ${reason}`);
  } finally {
    forget();
    await run.close();
  }
}

/** Its failure is the run's, its output is passed on, and it ends with us. */
async function program(what: string, path: string, args: readonly string[], run?: LabRun): Promise<void> {
  const child = spawn(path, args, {
    stdio: ["inherit", "pipe", "pipe"],
    env: {
      ...process.env,
      // vitest's first line takes `node` from PATH; it must be the pinned one.
      PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}`,
      ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
    },
  });
  let output = "";
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (text: string) => {
      output += text;
      process[stream].write(text);
    });
  }
  const closed = once(child, "close").catch(() => undefined);
  const exited = once(child, "exit");
  const end = run?.cleanup.defer(`end ${what}`, async () => {
    child.kill();
    await exited;
  });
  const [code] = (await exited) as [number | null];
  await end?.();
  // What it printed last; but a process that it left behind may hold on to the pipes.
  await Promise.race([closed, setTimeout(2_000)]);
  for (const stream of [child.stdout, child.stderr]) stream.destroy();
  if (code === 0) return;
  process.exitCode = code ?? 1;
  failed.push({ what, output });
}

main()
  .catch((error: unknown) => {
    const failure = toFailure(error);
    console.error(`test: ${failure.code}: ${failure.message}`);
    process.exitCode = 1;
  })
  .finally(() => {
    for (const { what, output } of failed) console.error(`\ntest: failed: ${what}\n${recap(output)}`);
  });
