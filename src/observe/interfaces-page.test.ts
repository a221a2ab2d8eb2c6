import { describe, expect, it } from "vitest";
import { readExposition } from "../../test/stand-in/prometheus/read-exposition.ts";
import type { PortInspection } from "../dataplane/port.ts";
import type { PortRecord } from "../records/port-record.ts";
import { systemClock } from "../sync/clock.ts";
import { INTERFACE_METRICS } from "./declared-metrics.ts";
import { interfacesPage } from "./interfaces-page.ts";

const record = (
  podName: string,
  interfaceName: string,
  state: PortRecord["state"] = "attached",
): PortRecord => ({
  ...{ startedAtMs: 1, bootId: "boot", releases: [] },
  ...{ containerId: "c1", interfaceName, state, allocationId: "a".repeat(16), device: "sockets-00000" },
  ...{ pool: "sockets", portName: `${podName}-${interfaceName}`, bridge: "br0", settings: {}, createdAt: 1 },
  ...{ switchSocketPath: "/s", podSocketPath: "/p", mac: "02:00:00:00:00:01", network: "n", netns: "/n" },
  ...{ podNamespace: "tenant", podName, podUid: "u" },
});
const inspection = (name: string, link: "up" | "down", packets?: number): PortInspection => ({
  ...{ name, bridge: "br0", socketPath: "/s", link, connected: link === "up" },
  owner: {
    ...{ node: "n", podNamespace: "d", podName: "p", podUid: "", containerId: "c1", interfaceName: "i" },
    ...{ network: "n", mac: "02:00:00:00:00:01", allocationId: "a".repeat(16) },
  },
  ...(packets === undefined
    ? {}
    : {
        traffic: {
          fromGuest: { packets, bytes: packets * 64, dropped: 0 },
          toGuest: { packets: 1, bytes: 64, dropped: packets },
        },
      }),
});

describe("/metrics/interfaces", () => {
  it("has what the switch reports of each attached interface, by the pod that has it", async () => {
    const page = interfacesPage({
      ports: {
        list: () => [record("vm", "net1"), record("dpdk", "net1"), record("vm", "net2", "detaching")],
      },
      inspect: async () => [
        inspection("vm-net1", "up", 7),
        inspection("dpdk-net1", "down"),
        inspection("vm-net2", "up", 9),
        inspection("unrecorded", "up", 9),
      ],
      clock: systemClock,
    });
    const families = readExposition(await page());
    const values = (name: keyof typeof INTERFACE_METRICS) =>
      Object.fromEntries(families.get(name)?.series ?? []);
    const vm = 'pool="sockets",pod_namespace="tenant",pod_name="vm",interface="net1"';
    expect([...families.keys()]).toEqual(Object.keys(INTERFACE_METRICS));
    expect(values("vhostuser_interface_link_up")).toEqual({
      [`vhostuser_interface_link_up{${vm}}`]: 1,
      'vhostuser_interface_link_up{pool="sockets",pod_namespace="tenant",pod_name="dpdk",interface="net1"}': 0,
    });
    expect(values("vhostuser_interface_packets_total")).toEqual({
      [`vhostuser_interface_packets_total{${vm},direction="from-guest"}`]: 7,
      [`vhostuser_interface_packets_total{${vm},direction="to-guest"}`]: 1,
    });
    expect(values("vhostuser_interface_bytes_total")).toMatchObject({
      [`vhostuser_interface_bytes_total{${vm},direction="from-guest"}`]: 448,
    });
    expect(values("vhostuser_interface_dropped_packets_total")).toMatchObject({
      [`vhostuser_interface_dropped_packets_total{${vm},direction="to-guest"}`]: 7,
    });
  });

  it("reads the switches once for callers at the same time, and again for later ones", async () => {
    let reads = 0;
    let now = 0;
    const page = interfacesPage({
      ports: { list: () => [] },
      inspect: async () => {
        reads += 1;
        return [];
      },
      clock: { monotonic: () => now },
    });
    await Promise.all([page(), page(), page()]);
    expect(reads).toBe(1);
    now = 10_000;
    await page();
    expect(reads).toBe(2);
  });

  it("waits for a switch that is slow to answer, and does not ask it a second time meanwhile", async () => {
    const answer = Promise.withResolvers<readonly PortInspection[]>();
    let reads = 0;
    let now = 0;
    const page = interfacesPage({
      ports: { list: () => [] },
      inspect: () => {
        reads += 1;
        return answer.promise;
      },
      clock: { monotonic: () => now },
    });
    const first = page();
    now = 3_000;
    const second = page();
    answer.resolve([]);
    await Promise.all([first, second]);
    expect(reads).toBe(1);
  });
});
