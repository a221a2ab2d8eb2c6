import { describe, expect, it } from "vitest";
import { readExposition } from "./read-exposition.ts";

const UP = "# HELP up Whether it is.\n# TYPE up gauge\n";
const HISTOGRAM = "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n";

describe("the reader of metrics", () => {
  it("reads every kind", () => {
    const text = `${UP}up{a="x\\"},b=\\"",c="1"} 1.5e-7\n\n# HELP n_total N.\n# TYPE n_total counter\nn_total 3\n
${HISTOGRAM}t_seconds_bucket{le="1",a="x"} 1\nt_seconds_bucket{le="+Inf",a="x"} 2\nt_seconds_sum{a="x"} 4\nt_seconds_count{a="x"} 2\n`;
    const families = readExposition(text);
    expect([...families.keys()]).toEqual(["up", "n_total", "t_seconds"]);
    expect(families.get("up")?.series.get('up{a="x\\"},b=\\"",c="1"}')).toBe(1.5e-7);
    expect(families.get("t_seconds")?.series.get('t_seconds_count{a="x"}')).toBe(2);
  });

  it.each([
    ["no end of line", `${UP}up 1`, /no end/],
    ["a sample without a family", "up 1\n", /without a family/],
    ["TYPE without HELP", "# TYPE up gauge\nup 1\n", /without its HELP/],
    ["a series twice", `${UP}up{a="1",b="2"} 1\nup{b="2",a="1"} 1\n`, /twice/],
    ["a label twice", `${UP}up{a="1",a="2"} 1\n`, /label twice/],
    ["a family in two pieces", `${UP}up 1\n${UP}up 2\n`, /second time/],
    ["a sample of another family", `${UP}down 1\n`, /another family/],
    ["an unescaped quote", `${UP}up{a="x"y"} 1\n`, /not a sample/],
    ["a hyphen in a name", "# HELP a-b x\n# TYPE a-b gauge\na-b 1\n", /not a sample/],
    ["a value that is none", `${UP}up undefined\n`, /not a sample/],
    ["a counter without _total", "# HELP n N.\n# TYPE n counter\nn 1\n", /_total/],
    ["a counter below 0", "# HELP n_total N.\n# TYPE n_total counter\nn_total -1\n", /below 0/],
    [
      "buckets that shrink",
      `${HISTOGRAM}t_seconds_bucket{le="1"} 2\nt_seconds_bucket{le="+Inf"} 1\nt_seconds_sum 1\nt_seconds_count 1\n`,
      /do not grow/,
    ],
    [
      "a count that is not the last bucket",
      `${HISTOGRAM}t_seconds_bucket{le="+Inf"} 1\nt_seconds_sum 1\nt_seconds_count 2\n`,
      /not its count/,
    ],
  ])("refuses %s", (_, text, message) => {
    expect(() => readExposition(text)).toThrow(message);
  });
});
