import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HEALTH_RULES, judgeHealth, type PoolHealth, UNPROVEN } from "./pool-health.ts";

/** Verdicts after each of the probes: `+` went well, `-` did not, `stepMs` apart. */
function verdicts(probes: string, stepMs: number, start: PoolHealth = UNPROVEN): string[] {
  let health = start;
  return [...probes].map((probe, index) => {
    health = judgeHealth(health, { ready: probe === "+", atMs: 1_000_000 + index * stepMs });
    return health.verdict;
  });
}

describe("a pool's health", () => {
  it.each([
    { what: "the first good probe proves it", probes: "--+", stepMs: 2_000, last: "healthy" },
    { what: "a switch that never answered stays unproven", probes: "-----", stepMs: 9_000, last: "unproven" },
    { what: "few failures are tolerated", probes: "+--", stepMs: 60_000, last: "healthy" },
    { what: "many failures in a short time are tolerated", probes: "+-----", stepMs: 2_000, last: "healthy" },
    { what: "many failures over a long time are not", probes: "+------", stepMs: 2_000, last: "unhealthy" },
    {
      what: "a good probe in between starts the count again",
      probes: "+-----+-----",
      stepMs: 2_000,
      last: "healthy",
    },
    { what: "two good probes do not make up for it", probes: "+------++", stepMs: 2_000, last: "unhealthy" },
    { what: "three do", probes: "+------+++", stepMs: 2_000, last: "healthy" },
    { what: "three with a bad one between do not", probes: "+------++-+", stepMs: 2_000, last: "unhealthy" },
  ])("$what", ({ probes, stepMs, last }) => {
    expect(verdicts(probes, stepMs).at(-1)).toBe(last);
  });

  it("never flaps for a switch that comes and goes faster than the rules", () => {
    const flapping = `+${"-----++".repeat(200)}`;
    expect(new Set(verdicts(flapping, 2_000))).toEqual(new Set(["healthy"]));
  });

  it("changes only after as many probes in a row, over as long a time, as the rules say", () => {
    const probes = fc.array(fc.record({ ready: fc.boolean(), stepMs: fc.integer({ min: 1, max: 8_000 }) }));
    fc.assert(
      fc.property(probes, (sequence) => {
        let health = UNPROVEN;
        let atMs = 0;
        const past: { ready: boolean; atMs: number }[] = [];
        for (const { ready, stepMs } of sequence) {
          atMs += stepMs;
          past.push({ ready, atMs });
          const before = health.verdict;
          health = judgeHealth(health, { ready, atMs });
          if (health.verdict === before) continue;
          const { failures, failingMs, successes } = HEALTH_RULES;
          if (health.verdict === "unhealthy") {
            const bad = past.slice(past.findLastIndex((probe) => probe.ready) + 1);
            expect(bad.length).toBeGreaterThanOrEqual(failures);
            expect(atMs - (bad[0]?.atMs ?? atMs)).toBeGreaterThanOrEqual(failingMs);
          } else if (before === "unhealthy") {
            expect(past.slice(-successes).every((probe) => probe.ready)).toBe(true);
          } else {
            expect([before, ready]).toEqual(["unproven", true]);
          }
        }
      }),
    );
  });
});
