// npm run fuzz:shim -- --runs 10000 --seed 1: the sanitised CNI executable against random input and daemons. A case that
// fails is run again with --seed <its seed> --runs 1.
import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { fuzzShim } from "../test/shim/fuzz/fuzz-shim.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(randomInt(2 ** 32)) },
    runs: { type: "string", default: "2000" },
  },
});
const [seed, runs] = [Number(values.seed), Number(values.runs)];
if (!Number.isInteger(seed) || !Number.isInteger(runs))
  throw new Error("--seed and --runs are whole numbers");
console.log(`fuzz-shim: ${runs} runs from seed ${seed}`);
const findings = await fuzzShim({
  seed,
  runs,
  atOnce: 2 * availableParallelism(),
  progress: (done) => {
    if (done % 500 === 0) console.log(`fuzz-shim: ${done} runs`);
  },
});
for (const finding of findings) console.log(`fuzz-shim: seed ${finding.seed}: ${finding.what}`);
console.log(`fuzz-shim: ${findings.length} findings in ${runs} runs`);
process.exitCode = findings.length === 0 ? 0 : 1;
