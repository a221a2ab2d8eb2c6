// npm run fuzz:shim -- --runs 10000 --seed 1: the sanitised CNI executable against random input and daemons. A case that
// fails is run again with --seed <its seed> --runs 1.
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { programOf, runProgram, wholeNumber } from "../src/command-line/program.ts";
import { plural } from "../src/status/words.ts";
import { fuzzShim } from "../test/shim/fuzz/fuzz-shim.ts";
import { Narrator } from "./narrator.mjs";

interface Options {
  readonly seed?: number;
  readonly runs: number;
}

async function main({ seed = randomInt(2 ** 32), runs }: Options): Promise<void> {
  const narrator = new Narrator(process.stderr);
  const findings = await narrator.step("fuzz", `runs from seed ${seed}`, async () => ({
    result: await fuzzShim({
      ...{ seed, runs, atOnce: 2 * availableParallelism() },
      progress: (done) => narrator.show(`${done} of ${runs}`),
    }),
  }));
  for (const finding of findings) console.log(`fuzz-shim: seed ${finding.seed}: ${finding.what}`);
  console.log(`fuzz-shim: ${plural(findings.length, "finding")} in ${plural(runs, "run")}`);
  process.exitCode = findings.length === 0 ? 0 : 1;
}

const program = programOf(
  "npm run fuzz:shim --",
  "Random input and daemons for the sanitised CNI executable.",
)
  .option("--seed <number>", "of the first run (default: at random)", wholeNumber)
  .option("--runs <number>", "how many", wholeNumber, 2_000)
  .action(main);
await runProgram(program);
