import { randomInt } from "node:crypto";
import { describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { shimContract } from "../contract/shim.ts";
import { fuzzShim } from "../shim/fuzz/fuzz-shim.ts";

const RUNS = 400;
/** Most of a case is waiting. */
const AT_ONCE = 16;

shimContract("with sanitizers", async (output, defines) => ({
  executable: await compileShim({ sanitized: true, output, defines }),
}));

describe("the sanitised CNI executable", () => {
  it(`stands ${RUNS} random callers and daemons`, async () => {
    const seed = randomInt(2 ** 32);
    console.log(`fuzzed from seed ${seed}; again with npm run fuzz:shim -- --seed ${seed} --runs ${RUNS}`);
    expect(await fuzzShim({ seed, runs: RUNS, atOnce: AT_ONCE })).toEqual([]);
  }, 300_000);
});
