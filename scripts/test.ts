// npm test: everything, after installing what it needs, and a soak of KUBE_VHOSTUSER_SOAK_MINUTES (default 5) at the
// end. `-- --unit` runs the tests that need nothing installed but musl-gcc, `-- --no-soak` leaves the soak out; everything
// else after `--` goes to vitest, and then there is no soak either.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, resolve } from "node:path";
import { toFailure } from "../src/failure/failure.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { buildAll } from "./build/build-all.ts";
import { EVERYTHING, SUITES } from "./suites.ts";

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
    const chosen = args.length === 0 ? EVERYTHING : SUITES;
    for (const suite of args.includes("--project") ? [{ what: "those of", args: [] }] : chosen) {
      progress(`tests: ${[suite.what, ...args].join(" ")}`);
      const code = await vitest([...suite.args, ...args]);
      if (code !== 0) process.exitCode = code;
    }
    if (given.length === 0) {
      const minutes = process.env["KUBE_VHOSTUSER_SOAK_MINUTES"] ?? "5";
      progress(`soak: ${minutes} minutes`);
      const soak = [resolve(import.meta.dirname, "soak.ts"), `--minutes=${minutes}`];
      const code = await program(process.execPath, soak);
      if (code !== 0) process.exitCode = code;
    }
  } finally {
    forget();
    await run.close();
  }
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
