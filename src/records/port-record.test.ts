import { describe, expect, it } from "vitest";
import { isGoing, portRecordKind } from "./port-record.ts";

const RECORD = {
  containerId: "c1",
  startedAtMs: 1,
  bootId: "boot",
  releases: [],
  interfaceName: "net1",
  state: "attached",
  allocationId: "0123456789abcdef",
  device: "sockets-00001",
  pool: "sockets",
  portName: "vhu0123456789ab",
  bridge: "br0",
  switchSocketPath: "/var/run/vhostuser/0123456789abcdef/net1/vhost.sock",
  podSocketPath: "/var/run/vhostuser/sockets/net1/vhost.sock",
  mac: "02:00:00:00:00:01",
  network: "net",
  netns: "/var/run/netns/x",
  podNamespace: "ns",
  podName: "pod",
  podUid: "u-1",
  createdAt: 1,
  settings: {},
};

describe("the record of a port", () => {
  it("keeps the keys of routes that it does not know", () => {
    const routes = [{ dst: "0.0.0.0/0", gw: "10.0.0.1", mtu: 1400, scope: 0 }];
    const given = { ips: [], routes, dns: { nameservers: [], search: [], options: [] } };
    const request = { stdin: "{}", env: { CNI_IFNAME: "net1" } };
    const lease = { containerId: "c1", type: "host-local", request, given };
    expect(portRecordKind.schema.parse({ ...RECORD, lease }).lease).toEqual(lease);
  });

  it.each([
    ["attaching", false],
    ["attached", false],
    ["detaching", true],
    ["releasing", true],
  ] as const)("%s: is it over? %j", (state, going) => {
    expect(isGoing({ state })).toBe(going);
  });
});
