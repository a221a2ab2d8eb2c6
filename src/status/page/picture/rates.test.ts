import { describe, expect, it } from "vitest";
import { exampleNode } from "../../../../test/stand-in/records/example-node.ts";
import { describeNode } from "../describe-node.ts";
import { Rates, rateKey } from "./rates.ts";

const { view } = await describeNode(exampleNode());
const pod = view.pods.find(({ health }) => health === "healthy");
const [one] = pod?.interfaces ?? [];
if (pod === undefined || one?.port === undefined) throw new Error("the example has a port");
const { port } = one;

/** Rates of one interface that is read every 2 s with these counters; undefined for a switch that does not count. */
function ratesOf(counters: readonly (number | undefined)[], everyMs = 2_000) {
  const rates = new Rates();
  return counters.map((packets, index) => {
    const none = { packets: 0, bytes: 0, dropped: 0 };
    const traffic = packets === undefined ? undefined : { fromGuest: { ...none, packets }, toGuest: none };
    const interfaces = [{ ...one, port: { ...port, traffic } }];
    const pods = [{ ...pod, interfaces }] as typeof view.pods;
    return rates.note({ pods, at: index * everyMs }).get(rateKey(pod?.id ?? "", one?.name ?? ""));
  });
}

/** What a reader sees every 2 s of a steady rate that the switch counts every 5 s. */
const steady = (perSecond: number, readings: number) =>
  Array.from({ length: readings }, (_, index) => 10_000 + perSecond * 5 * Math.floor((index * 2 + 1) / 5));

describe("the rate of an interface", () => {
  it("is that of steady traffic, from the first rate shown on", () => {
    const [known] = [ratesOf(steady(1_000, 40))];
    expect(known.slice(0, 3)).toEqual([undefined, undefined, undefined]);
    const shown = known.filter((rate) => rate !== undefined);
    expect(shown.length).toBeGreaterThan(30);
    // The first spans one interval of 4 or 6 s, the others two, which are 10 s.
    for (const rate of shown.slice(0, 3)) expect(rate).toBeGreaterThan(800);
    expect(new Set(shown.slice(3))).toEqual(new Set([1_000]));
  });

  it("is not known before the counter has changed twice: the age of the first value is unknown", () => {
    expect(ratesOf([100, 100, 5_100, 5_100, 9_100])).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      1_000,
    ]);
  });

  it("is 0 where the counter stays for longer than the switch's interval", () => {
    expect(ratesOf([0, 500, 1_500, ...Array<number>(8).fill(1_500)])).toEqual([
      ...[undefined, undefined, 500, 500, 500, 500, 500, 500, 500],
      ...[0, 0],
    ]);
    expect(ratesOf([7, 7], 13_000)).toEqual([undefined, 0]);
  });

  it("begins again with a port that was made again", () => {
    expect(ratesOf([100, 1_100, 2_100, 5, 2_005, 4_005])).toEqual([
      ...[undefined, undefined, 500, undefined, undefined],
      1_000,
    ]);
  });

  it("is not known of a switch that does not count, and forgotten with its interface", () => {
    expect(ratesOf([undefined, undefined])).toEqual([undefined, undefined]);
    expect(ratesOf([0, undefined, 4_000])).toEqual([undefined, undefined, undefined]);
  });

  it("is not known while the clock is set back", () => {
    expect(ratesOf([0, 4_000, 8_000], -2_000)).toEqual([undefined, undefined, undefined]);
  });
});
