// VPP_BIN=/usr/bin/vpp npm run test:vpp: the VPP suites on VPP itself; npm test runs them on a stand-in. What comes
// after `--` goes to vitest.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, resolve } from "node:path";
import { Failure, toFailure } from "../src/failure/failure.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { buildAll } from "./build/build-all.ts";

const BIN = resolve(import.meta.dirname, "../node_modules/.bin");

async function main(): Promise<void> {
  const binary = await vppBinary(process.env["VPP_BIN"]);
  await requireMachine();
  const progress = (line: string) => console.log(`· ${line}`);
  const run = await openLabRun({ progress });
  const forget = endOnSignals(run);
  try {
    await ensurePackages(run);
    progress("build");
    await buildAll();
    for (const suite of [
      ["--project", "integration", "test/integration/vpp-"],
      ["--project", "vpp"],
    ]) {
      progress(`tests on ${binary}: ${suite.join(" ")}`);
      const code = await vitest([...suite, ...process.argv.slice(2)], binary);
      if (code !== 0) process.exitCode = code;
    }
  } finally {
    forget();
    await run.close();
  }
}

/** @throws Failure invalid-request where there is no program that can be run */
async function vppBinary(path: string | undefined): Promise<string> {
  const fix = "VPP_BIN=/usr/bin/vpp npm run test:vpp; VPP is not in Debian: docs/vpp.md says what it needs";
  if (path === undefined || path === "") {
    const what = "these tests run on a real VPP, and VPP_BIN does not say where its program is";
    throw new Failure({ code: "invalid-request", what, where: "VPP_BIN", fix });
  }
  try {
    await access(path, constants.X_OK);
  } catch (cause) {
    throw new Failure({
      code: "invalid-request",
      what: "this is no program",
      where: `VPP_BIN=${path}`,
      fix,
      cause,
    });
  }
  return resolve(path);
}

async function vitest(args: readonly string[], binary: string): Promise<number> {
  const child = spawn(resolve(BIN, "vitest"), ["run", ...args], {
    stdio: "inherit",
    // vitest's first line takes `node` from PATH; it must be the pinned one.
    env: {
      ...process.env,
      VPP_BIN: binary,
      PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}`,
    },
  });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`test:vpp: ${failure.code}: ${failure.message}`);
  process.exitCode = 1;
});
