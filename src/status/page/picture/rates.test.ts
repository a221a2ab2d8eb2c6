import { describe, expect, it } from "vitest";
import { exampleNode } from "../../../../test/stand-in/records/example-node.ts";
import { describeNode } from "../describe-node.ts";
import { Rates, rateKey } from "./rates.ts";

const { view } = await describeNode(exampleNode());
const [pod] = view.pods;
const [one] = pod?.interfaces ?? [];
if (pod === undefined || one?.port === undefined) throw new Error("the example has a port");
const { port } = one;

/** Rates of one interface, looked at every 2 s with these counters; undefined for a switch that does not count. */
function ratesOf(counters: readonly (number | undefined)[], everyMs = 2_000) {
  const rates = new Rates();
  return counters.map((packets, index) => {
    const { packets: _, ...uncounted } = port;
    const interfaces = [{ ...one, port: packets === undefined ? uncounted : { ...port, packets } }];
    const pods = [{ ...pod, interfaces }] as typeof view.pods;
    return rates.note({ pods, at: index * everyMs }).get(rateKey(pod?.id ?? "", one?.name ?? ""));
  });
}

describe("the rate of an interface", () => {
  it("is known once its counter has changed, and stands until the switch counts again", () => {
    expect(ratesOf([100, 100, 1_100, 1_100, 1_100, 7_100])).toEqual([
      ...[undefined, undefined, 250, 250, 250],
      1_000,
    ]);
  });

  it("is nought where nothing is counted for longer than the switch takes", () => {
    expect(ratesOf([0, 500, 500, 500, 500, 500, 500, 500, 500])).toEqual([
      ...[undefined, 250, 250, 250, 250, 250, 250, 250],
      0,
    ]);
    expect(ratesOf([7, 7], 13_000)).toEqual([undefined, 0]);
  });

  it("begins anew with a port that was made anew", () => {
    expect(ratesOf([100, 1_100, 5, 2_005])).toEqual([undefined, 500, undefined, 1_000]);
  });

  it("is not known of a switch that does not count, and forgotten with its interface", () => {
    expect(ratesOf([undefined, undefined])).toEqual([undefined, undefined]);
    expect(ratesOf([0, undefined, 4_000])).toEqual([undefined, undefined, undefined]);
  });

  it("is none where the clock was set back", () => {
    expect(ratesOf([0, 4_000, 8_000], -2_000)).toEqual([undefined, undefined, undefined]);
  });
});
