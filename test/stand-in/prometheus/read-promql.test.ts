import { describe, expect, it } from "vitest";
import { readPromQl } from "./read-promql.ts";

describe("the reader of PromQL", () => {
  it("finds every metric, matcher and grouping", () => {
    const text = `sum by (node, code) (increase(a_total{verb="ADD", code!~"ok|busy"}[15m])) > 0
      unless on (instance) x:y:z{node=~"$node"} offset 5m`;
    expect(readPromQl(text)).toEqual({
      selectors: [
        {
          metric: "a_total",
          matchers: [
            { label: "verb", value: "ADD" },
            { label: "code", value: "ok|busy" },
          ],
        },
        { metric: "x:y:z", matchers: [{ label: "node", value: "$node" }] },
      ],
      groupings: ["node", "code", "instance"],
    });
  });

  it.each([
    ["a bracket that stays open", "sum(a"],
    ["a range without a duration", "rate(a[])"],
    ["a function that there is not", "rates(a[5m]) >"],
    ["nothing", ""],
    ["a selector of every metric", '{job="a"}'],
  ])("refuses %s", (_, text) => {
    expect(() => readPromQl(text)).toThrow(/not PromQL|without a metric/);
  });
});
