import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SUITES } from "../bench/suites.ts";
import { startSwitch } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";

let run: LabRun;
let ovs: OvsDpdk;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
});
afterAll(() => run?.close());

describe("npm run bench", () => {
  // The figures themselves do not count: they are taken once, of little, on a machine that does other work.
  it.each(SUITES)("suite $name gives a figure for each of its measurements", async ({ figures }) => {
    const taken = await figures({ run, ovs, isTrial: true });
    const broken = taken.filter(
      ({ ours, peer, ratio }) => ![ours, peer ?? 0, ratio ?? 0].every((value) => Number.isFinite(value)),
    );
    expect(broken).toEqual([]);
    expect(taken.length).toBeGreaterThan(0);
    expect(new Set(taken.map(({ name }) => name)).size).toBe(taken.length);
  });
});
