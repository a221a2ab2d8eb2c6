import { afterEach, expect, test } from "vitest";
import { countHugepages } from "../machine/hugepage-pool.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";

const runs: LabRun[] = [];
const openRun = async () => {
  const run = await openLabRun();
  runs.push(run);
  return run;
};
afterEach(async () => {
  for (const run of runs.splice(0)) await run.close();
});

test("runs that reserve at the same time each get pages of their own, though none are used yet", async () => {
  const taken = await Promise.all(
    [1, 2, 3, 4].map(async (pages) => reserveHugepages(await openRun(), 2048, pages)),
  );
  expect(taken).toEqual([1, 2, 3, 4]);
  expect((await countHugepages(2048)).total).toBeGreaterThanOrEqual(10);
});
