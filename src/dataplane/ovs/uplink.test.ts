import { describe, expect, it } from "vitest";
import { pciAddress, uplinksOf } from "./uplink.ts";

const row = (name: string, type: string, options: Readonly<Record<string, string>> = {}) => ({
  _uuid: `i-${name}`,
  name,
  type,
  options: new Map(Object.entries(options)),
  mtu: undefined,
  mtu_request: undefined,
  ofport: 1,
  error: undefined,
  link_state: undefined,
  status: new Map<string, string>(),
  ingress_policing_rate: 0,
  ingress_policing_burst: 0,
  other_config: new Map<string, string>(),
  external_ids: new Map<string, string>(),
});
const port = (name: string, ...interfaces: readonly string[]) => ({
  _uuid: `p-${name}`,
  name,
  interfaces: interfaces.map((interfaceName) => `i-${interfaceName}`),
  vlan_mode: undefined,
  tag: undefined,
  trunks: [],
  cvlans: [],
  protected: false,
  qos: undefined,
  other_config: new Map<string, string>(),
  external_ids: new Map<string, string>(),
});
const bridge = (name: string, ...ports: readonly string[]) => ({
  name,
  ports: ports.map((portName) => `p-${portName}`),
});

const TABLES = {
  bridges: [
    bridge("br-int", "vm", "to-phy", "br-int"),
    bridge("br-phy", "bond", "to-int"),
    bridge("br-other", "lone", "torn"),
  ],
  ports: [
    port("vm", "vm"),
    port("to-phy", "to-phy"),
    port("br-int", "br-int"),
    port("bond", "eth0", "eth1"),
    port("to-int", "to-int"),
    port("lone", "eth2"),
    port("torn", "gone"),
  ],
  interfaces: [
    row("vm", "dpdkvhostuserclient"),
    row("br-int", "internal"),
    row("to-phy", "patch", { peer: "to-int" }),
    row("to-int", "patch", { peer: "to-phy" }),
    row("eth0", "dpdk"),
    row("eth1", "dpdk"),
    row("eth2", "dpdk"),
  ],
};
const names = (of: string) => uplinksOf(of, TABLES).map(({ name }) => name);

describe("a bridge's uplinks", () => {
  it("are its physical DPDK ports", () => {
    expect(names("br-other")).toEqual(["eth2"]);
  });

  it("are also those behind patch ports, and each member of a bond", () => {
    expect(names("br-int")).toEqual(["eth0", "eth1"]);
    expect(names("br-phy")).toEqual(["eth0", "eth1"]);
  });

  it("are an empty list for a bridge that does not exist", () => {
    expect(names("br-none")).toEqual([]);
  });
});

describe("the PCI address in a port's device arguments", () => {
  it.each([
    ["0000:3B:00.1", "0000:3b:00.1"],
    ["0000:08:00.0,representor=[0-3]", "0000:08:00.0"],
    ["pci:0000:08:00.0", "0000:08:00.0"],
    ["3b:00.1", "0000:3b:00.1"],
    ["class=eth,mac=00:11:22:33:44:55", undefined],
    ["net_null0", undefined],
    ["../../../etc/passwd", undefined],
    ["0000:08:00.0/../x", undefined],
    [undefined, undefined],
  ])("of %s is %s", (devargs, address) => {
    expect(pciAddress(devargs)).toBe(address);
  });
});
