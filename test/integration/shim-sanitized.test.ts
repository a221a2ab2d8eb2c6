import { randomInt } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { shimContract } from "../contract/shim.ts";
import { SHIM_TIMES } from "../contract/shim-under-test.ts";
import { fuzzShim } from "../shim/fuzz/fuzz-shim.ts";

const RUNS = 400;

let built: string;
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-shim-sanitized-"));
});
afterAll(() => rm(built, { recursive: true }));

shimContract("with sanitizers", async () => {
  const build = (name: string, defines: Readonly<Record<string, number>>) =>
    compileShim({ sanitized: true, output: join(built, name), defines });
  return {
    usual: { executable: await build("usual", SHIM_TIMES.usual) },
    strict: { executable: await build("strict", { ...SHIM_TIMES.usual, ...SHIM_TIMES.strict }) },
    lenient: { executable: await build("lenient", { ...SHIM_TIMES.usual, ...SHIM_TIMES.lenient }) },
  };
});

describe("the sanitised CNI executable", () => {
  it(`stands ${RUNS} random callers and daemons`, async () => {
    const seed = randomInt(2 ** 32);
    console.log(`fuzzed from seed ${seed}; again with npm run fuzz:shim -- --seed ${seed} --runs ${RUNS}`);
    expect(await fuzzShim({ seed, runs: RUNS, atOnce: 4 })).toEqual([]);
  }, 300_000);
});
