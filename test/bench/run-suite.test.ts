import { describe, expect, it } from "vitest";
import { figuresTable } from "./figures-table.ts";
import { atMost, type Measurement, ratioAtMost, type SuiteDefinition } from "./measurement.ts";
import { runSuite } from "./run-suite.ts";
import { percentileOf, spreadOf } from "./spread.ts";

const options = { progress: () => undefined, signal: new AbortController().signal };

const measurement = (over: Partial<Measurement<string[]>>): Measurement<string[]> => ({
  name: "work",
  unit: "ms",
  repetitions: 3,
  ours: async () => 2,
  ...over,
});

const suite = (...measurements: readonly Measurement<string[]>[]): SuiteDefinition<string[]> => ({
  name: "s",
  peer: null,
  measurements,
});

describe("a suite", () => {
  it("takes ours and the peer's by turns, each of them first by turns, after the warm-up", async () => {
    const log: string[] = [];
    const work = measurement({
      warmUp: 1,
      prepare: async (rig) => void rig.push("prepare"),
      ours: async (rig) => rig.push("ours"),
      peer: async (rig) => rig.push("peer"),
    });
    await runSuite(suite(work), log, options);
    const turns = ["peer", "ours", "ours", "peer", "peer", "ours", "ours", "peer"];
    expect(log).toEqual(["prepare", ...turns]);
  });

  it("takes each once, without a warm-up, when it is only tried", async () => {
    const log: string[] = [];
    const work = measurement({ warmUp: 4, ours: async (rig) => rig.push("ours") });
    const figures = await runSuite(suite(work), log, { ...options, isTrial: true });
    expect(log).toEqual(["ours"]);
    expect(figures).toHaveLength(2);
  });

  it("leaves the warm-up out of the figures", async () => {
    let next = 100;
    const work = measurement({ warmUp: 2, repetitions: 2, ours: async () => next-- });
    const [median, p95] = await runSuite(suite(work), [], options);
    expect(median).toMatchObject({ name: "work, median", ours: 97.5, peer: null, ratio: null });
    expect(p95).toMatchObject({ name: "work, p95", ours: 98 });
  });

  it("compares with the peer and says whether the aim holds", async () => {
    const figures = await runSuite(
      suite(
        measurement({ name: "slower", peer: async () => 1, aim: ratioAtMost(1), shows: "median" }),
        measurement({ name: "alone", aim: ratioAtMost(1), shows: "median" }),
        measurement({ name: "small", aim: atMost(2, "<= 2 ms"), shows: "median" }),
      ),
      [],
      options,
    );
    expect(figures).toEqual([
      { suite: "s", name: "slower", unit: "ms", ours: 2, peer: 1, ratio: 2, aim: "ratio <= 1", holds: false },
      {
        suite: "s",
        name: "alone",
        unit: "ms",
        ours: 2,
        peer: null,
        ratio: null,
        aim: "ratio <= 1",
        holds: null,
      },
      {
        suite: "s",
        name: "small",
        unit: "ms",
        ours: 2,
        peer: null,
        ratio: null,
        aim: "<= 2 ms",
        holds: true,
      },
    ]);
  });

  it("makes a growth of two figures, for both sides", async () => {
    const definition: SuiteDefinition<string[]> = {
      ...suite(
        measurement({ name: "few", peer: async () => 10, shows: "median" }),
        measurement({ name: "many", ours: async () => 3, peer: async () => 20, shows: "median" }),
      ),
      growths: [{ name: "growth", of: "many", over: "few", aim: atMost(2, "<= 2") }],
    };
    const figures = await runSuite(definition, [], options);
    expect(figures.at(-1)).toEqual({
      suite: "s",
      name: "growth",
      unit: "x",
      ours: 1.5,
      peer: 2,
      ratio: 0.75,
      aim: "<= 2",
      holds: true,
    });
  });

  it("ends before the next repetition when it is told to", async () => {
    const stop = new AbortController();
    let taken = 0;
    const work = measurement({
      repetitions: 1000,
      ours: async () => {
        taken += 1;
        if (taken === 3) stop.abort(new Error("interrupted"));
        return 1;
      },
    });
    await expect(runSuite(suite(work), [], { ...options, signal: stop.signal })).rejects.toThrow(
      "interrupted",
    );
    expect(taken).toBe(3);
  });
});

describe("the spread", () => {
  it("has the middle, and what all but one in twenty stay below", () => {
    const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(spreadOf(samples)).toEqual({ median: 50.5, p95: 95 });
    expect(spreadOf([7])).toEqual({ median: 7, p95: 7 });
  });

  it("of a hundred has a 99th percentile that one is above", () => {
    const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentileOf(samples, 99)).toBe(99);
  });

  it("of nothing is refused", () => {
    expect(() => spreadOf([])).toThrow(RangeError);
    expect(() => percentileOf([], 99)).toThrow(RangeError);
  });
});

describe("the table", () => {
  it("has no line above 100 columns, and shows what does not hold", async () => {
    const long = measurement({
      name: "a measurement with forty characters, so",
      unit: "KiB",
      ours: async () => 123_456,
      peer: async () => 1_234,
      aim: ratioAtMost(1),
    });
    const table = figuresTable(await runSuite(suite(long), [], options));
    expect(Math.max(...table.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(table).toContain("NO");
  });
});
