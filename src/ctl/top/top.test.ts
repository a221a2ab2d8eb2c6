import { describe, expect, it } from "vitest";
import { nodeStatus } from "../../../test/stand-in/records/traced-interface.ts";
import { Rates } from "./rates.ts";
import { renderTop } from "./run-top.ts";

const [example] = nodeStatus().interfaces;
if (example?.port === undefined) throw new Error("the example has a port");
const { port } = example;

/** A reading of one port, or of several by their names. */
function reading(at: number, packets: Readonly<Record<string, number>>) {
  const none = { packets: 0, bytes: 0, dropped: 0 };
  const interfaces = Object.entries(packets).map(([portName, count]) => ({
    ...example,
    portName,
    port: {
      ...port,
      traffic: { fromGuest: { packets: count, bytes: count * 100, dropped: count / 10 }, toGuest: none },
    },
  }));
  return { at, interfaces: interfaces as ReturnType<typeof nodeStatus>["interfaces"] };
}
const packetsOf = (rates: Rates, at: number, count: number) =>
  rates.take(reading(at, { a: count }))[0]?.fromGuest?.packets;

describe("rates of counters that the switch writes every five seconds", () => {
  it("are those of the time between two readings", () => {
    const rates = new Rates();
    expect(rates.take(reading(0, { a: 0 }))[0]?.fromGuest).toBeUndefined();
    expect(rates.take(reading(5_000, { a: 500 }))[0]?.fromGuest).toEqual({
      packets: 100,
      bits: 80_000,
      drops: 10,
    });
  });

  it("stay what they were while the switch has not written, read more often", () => {
    const rates = new Rates();
    // The first reading may be of counters that are nearly five seconds old: a rate of it would be far too high.
    expect(packetsOf(rates, 0, 0)).toBeUndefined();
    expect(packetsOf(rates, 1_000, 500)).toBeUndefined();
    for (const at of [2_000, 3_000, 4_000, 5_000]) expect(packetsOf(rates, at, 500)).toBeUndefined();
    expect(packetsOf(rates, 6_000, 1_000)).toBe(100);
    for (const at of [7_000, 8_000, 9_000, 10_000]) expect(packetsOf(rates, at, 1_000)).toBe(100);
    expect(packetsOf(rates, 11_000, 1_250)).toBe(50);
  });

  it("are 0 once nothing goes through any more, and of a port that never had traffic", () => {
    const rates = new Rates();
    packetsOf(rates, 0, 0);
    expect(packetsOf(rates, 5_000, 0)).toBe(0);
    packetsOf(rates, 10_000, 500);
    expect(packetsOf(rates, 15_000, 500)).toBeGreaterThan(0);
    expect(packetsOf(rates, 21_000, 500)).toBe(0);
  });

  it("begin anew with a port that was made anew", () => {
    const rates = new Rates();
    packetsOf(rates, 0, 1_000);
    expect(packetsOf(rates, 5_000, 10)).toBeUndefined();
    expect(packetsOf(rates, 10_000, 510)).toBe(100);
  });

  it("are listed with the busiest first, and without where the switch does not count", () => {
    const rates = new Rates();
    rates.take(reading(0, { a: 0, b: 0, c: 0 }));
    const { interfaces } = reading(5_000, { a: 5, b: 50, c: 0 });
    const { traffic: _, ...silent } = port;
    const taken = rates.take({
      at: 5_000,
      interfaces: [...interfaces, { ...example, portName: "z", port: silent }],
    });
    expect(taken.map((one) => one.port)).toEqual(["b", "a", "c", "z"]);
    expect(taken[3]?.fromGuest).toBeUndefined();
  });
});

describe("top", () => {
  it("fits into 80 columns, whatever the pod is called", () => {
    const rates = new Rates();
    const of = (at: number, count: number) => {
      const { interfaces, ...rest } = reading(at, { a: count });
      const pod = { namespace: "production", name: "virt-launcher-a-very-long-name-x7k2p", uid: "" };
      return { ...rest, interfaces: interfaces.map((one) => ({ ...one, pod })) };
    };
    rates.take(of(0, 0));
    const screen = { columns: 80, colour: false, interactive: false, write: () => undefined };
    expect(renderTop(screen, "worker-1", rates.take(of(5_000, 74_400_000)))).toBe(
      `node worker-1: packets, bits and drops per second, as the guest sees them

POD                      INTERFACE        SENT  bit/s  DROPS  RECV  bit/s  DROPS
~a-very-long-name-x7k2p  pod37a8eec1ce1  14.9M  11.9G   1.5M     0      0      0
`,
    );
  });
});
