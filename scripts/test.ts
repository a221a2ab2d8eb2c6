// npm test: everything, after installing what it needs, and a soak of KUBE_VHOSTUSER_SOAK_MINUTES (default 5) beside
// what does not mind. `-- --unit` runs the tests that need nothing installed but musl-gcc, `-- --no-soak` leaves the soak out; everything
// else after `--` goes to vitest, and then there is no soak either.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, resolve } from "node:path";
import { toFailure } from "../src/failure/failure.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { buildAll } from "./build/build-all.ts";
import { ALONE, BESIDE_SOAK, SUITES, type Suite } from "./suites.ts";

const BIN = resolve(import.meta.dirname, "../node_modules/.bin");
const NO_SOAK = "--no-soak";

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const args = given.filter((arg) => arg !== NO_SOAK);
  if (args.includes("--unit")) {
    process.exitCode = await vitest(["--project", "unit", ...args.filter((arg) => arg !== "--unit")]);
    return;
  }
  await requireMachine();
  const progress = (line: string) => console.log(`· ${line}`);
  const run = await openLabRun({ progress });
  const forget = endOnSignals(run);
  try {
    await ensurePackages(run);
    progress("lint and types");
    process.exitCode = await program(process.execPath, [resolve(import.meta.dirname, "lint.ts")]);
    progress("build");
    await buildAll();
    const runSuites = async (suites: readonly Suite[]) => {
      for (const suite of suites) {
        progress(`tests: ${[suite.what, ...args].join(" ")}`);
        const code = await vitest([...suite.args, ...args]);
        if (code !== 0) process.exitCode = code;
      }
    };
    if (args.includes("--project")) await runSuites([{ what: "those of", args: [] }]);
    else if (args.length > 0) await runSuites(SUITES);
    else {
      const soaked = given.length === 0 ? soak(progress) : Promise.resolve(0);
      await runSuites(BESIDE_SOAK);
      const code = await soaked;
      if (code !== 0) process.exitCode = code;
      await runSuites(ALONE);
    }
  } finally {
    forget();
    await run.close();
  }
}

function soak(progress: (line: string) => void): Promise<number> {
  const minutes = process.env["KUBE_VHOSTUSER_SOAK_MINUTES"] ?? "5";
  progress(`soak: ${minutes} minutes, beside the first tests`);
  return program(process.execPath, [resolve(import.meta.dirname, "soak.ts"), `--minutes=${minutes}`]);
}

function vitest(args: readonly string[]): Promise<number> {
  return program(resolve(BIN, "vitest"), ["run", ...args]);
}

async function program(path: string, args: readonly string[]): Promise<number> {
  const child = spawn(path, args, {
    stdio: "inherit",
    // vitest's first line takes `node` from PATH; it must be the pinned one.
    env: { ...process.env, PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}` },
  });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`test: ${failure.code}: ${failure.message}`);
  process.exitCode = 1;
});
