// npm run soak -- --seed=7 --minutes=60: guests, pods and everything that can go wrong, round after round.
import { randomInt } from "node:crypto";
import { programOf, runProgram, wholeNumber } from "../src/command-line/program.ts";
import { plural } from "../src/status/words.ts";
import { soak } from "../test/soak/soak.ts";
import { buildStep } from "./build/build-all.ts";
import { inLabRun, installPackages } from "./in-lab-run.ts";
import { Narrator } from "./narrator.mjs";

interface Options {
  readonly seed?: number;
  readonly minutes: number;
  readonly rounds?: number;
}

async function main(given: Options): Promise<void> {
  const options = { seed: randomInt(1_000_000_000), rounds: Number.POSITIVE_INFINITY, ...given };
  const narrator = new Narrator(process.stdout);
  await inLabRun(narrator, async (run) => {
    await installPackages(run, narrator);
    await buildStep(narrator);
    narrator.say(`seed ${options.seed}, ${plural(options.minutes, "minute")}`);
    if (!(await soak(run, { ...options, narrator }))) process.exitCode = 1;
  });
}

const program = programOf(
  "npm run soak --",
  "Rounds of pods and guests that come, go and migrate while daemons, switch, kubelet, disks and clocks fail. After each round what there is is compared with what should be. Needs what npm test needs.",
)
  .option(
    "--seed <number>",
    "of the first round; the next has one more (default: at random; each round prints its own)",
    wholeNumber,
  )
  .option("--minutes <number>", "no round begins later", wholeNumber, 5)
  .option("--rounds <number>", "at most so many (default: as many as the minutes hold)", wholeNumber)
  .action(main);
await runProgram(program);
