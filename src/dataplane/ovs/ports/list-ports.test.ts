import { describe, expect, it } from "vitest";
import { inspect } from "./list-ports.ts";

const status = (entries: Record<string, string>) => new Map(Object.entries(entries));
const statistics = (entries: Record<string, number>) => new Map(Object.entries(entries));

describe("what an Interface row says beyond the state", () => {
  it("nothing of a port that waits for its guest, for which the switch counts drops alone", () => {
    const row = {
      status: status({ mode: "client", status: "disconnected", num_of_vrings: "2" }),
      statistics: statistics({ ovs_tx_failure_drops: 0, ovs_tx_retries: 0 }),
    };
    expect(inspect(row)).toEqual({});
  });

  it("queues, NUMA node and both directions as the guest sees them", () => {
    const row = {
      status: status({ status: "connected", num_of_vrings: "8", numa: "1" }),
      statistics: statistics({
        ...{ rx_packets: 10, rx_bytes: 640, rx_dropped: 1 },
        ...{ tx_packets: 20, tx_bytes: 1280, tx_dropped: 3 },
        ...{ ovs_tx_failure_drops: 3, ovs_rx_qos_drops: 0, ovs_tx_retries: 7 },
      }),
    };
    expect(inspect(row)).toEqual({
      queuePairs: 4,
      numaNode: 1,
      traffic: {
        fromGuest: { packets: 10, bytes: 640, dropped: 1 },
        toGuest: { packets: 20, bytes: 1280, dropped: 3 },
      },
      drops: { tx_dropped: 3, rx_dropped: 1, ovs_tx_failure_drops: 3 },
    });
  });

  it("no queues where the switch writes something other than a number", () => {
    const row = { status: status({ status: "connected", num_of_vrings: "-1" }), statistics: statistics({}) };
    expect(inspect(row)).toEqual({});
  });
});
