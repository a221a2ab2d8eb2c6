// npm run test:vpp: the VPP suites on a real VPP, whose program VPP_BIN names; npm test runs them on a stand-in.
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { programOf, runProgram } from "../src/command-line/program.ts";
import { Failure } from "../src/failure/failure.ts";
import { buildStep } from "./build/build-all.ts";
import { inLabRun, installPackages } from "./in-lab-run.ts";
import { Narrator } from "./narrator.mjs";
import { runVitest } from "./run-tool.ts";

async function main(vitestArgs: readonly string[]): Promise<void> {
  const binary = await vppBinary(process.env["VPP_BIN"]);
  const narrator = new Narrator(process.stdout);
  await inLabRun(narrator, async (run) => {
    await installPackages(run, narrator);
    await buildStep(narrator);
    for (const suite of [
      ["--project", "integration", "test/integration/vpp-"],
      ["--project", "vpp"],
    ]) {
      const { code } = await runVitest(narrator, {
        ...{ name: "tests", doing: `tests on ${binary}: ${suite.join(" ")}`, run },
        args: [...suite, ...vitestArgs],
        env: { VPP_BIN: binary },
      });
      if (code !== 0) process.exitCode = code;
    }
  });
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

const program = programOf(
  "npm run test:vpp --",
  "Runs the VPP suites on a real VPP, whose program VPP_BIN names; npm test runs them on a stand-in. docs/vpp.md says what VPP needs.",
)
  .argument("[vitest...]", "files, and after a further -- options of vitest")
  .action(main);
await runProgram(program);
