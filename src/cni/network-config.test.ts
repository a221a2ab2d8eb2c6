import { describe, expect, it } from "vitest";
import { portSettingsSchema } from "../config/port-settings.ts";
import { Failure } from "../failure/failure.ts";
import { withAddresses } from "../ipam/request-addresses.ts";
import type { Addressing } from "../records/port-record.ts";
import { errorAnswer } from "./error-answer.ts";
import { parseNetworkConfig } from "./network-config.ts";
import { portSettingsOf } from "./port-settings-of.ts";

const parse = (keys: object) =>
  parseNetworkConfig(Buffer.from(JSON.stringify({ cniVersion: "1.1.0", name: "net", ...keys })));
const settings = (keys: object, args: Record<string, string> = {}) => portSettingsOf(parse(keys), args);
/** What IPAM gives. */
const given = (ips: Addressing["ips"]): Addressing => ({
  ...{ ips, routes: [], dns: { nameservers: [], search: [], options: [] } },
});
const MBIT = 1_000_000;

/** The error object that the runtime gets. */
function refusal(work: () => unknown): { code: number; msg: string; details?: string } {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(Failure);
    return errorAnswer(error, "1.1.0") as { code: number; msg: string; details?: string };
  }
  throw new Error("nothing was refused");
}

describe("what a network configuration asks of its port", () => {
  it("is nothing by default", () => {
    expect(settings({ capabilities: { mac: true }, protected: false })).toEqual({});
  });

  it.each([
    ["an access VLAN", { vlan: 100 }, { mode: "access", tag: 100 }],
    ["an access VLAN by name", { vlan: 0, vlanMode: "access" }, { mode: "access", tag: 0 }],
    [
      "a trunk",
      { trunk: [{ minID: 20, maxID: 22 }, { id: 10 }, 21] },
      { mode: "trunk", trunks: [10, 20, 21, 22] },
    ],
    ["a trunk of everything", { vlanMode: "trunk" }, { mode: "trunk" }],
    ["a trunk of nothing but its name", { trunk: [] }, { mode: "trunk" }],
    [
      "a native VLAN",
      { vlan: 5, trunk: [{ id: 6 }], vlanMode: "native-untagged" },
      { mode: "native-untagged", tag: 5, trunks: [6] },
    ],
    ["a tagged native VLAN", { vlan: 5, vlanMode: "native-tagged" }, { mode: "native-tagged", tag: 5 }],
    [
      "QinQ",
      {
        vlan: 200,
        vlanMode: "dot1q-tunnel",
        customerVlans: [{ minID: 7, maxID: 8 }],
        qinqEthertype: "802.1q",
      },
      { mode: "dot1q-tunnel", tag: 200, customerVlans: [7, 8], tunnelEthertype: "802.1q" },
    ],
  ])("%s", (_name, keys, vlan) => {
    expect(settings(keys)).toEqual({ vlan: { trunks: [], customerVlans: [], ...vlan } });
  });

  it("a limit from CNI's bandwidth: ingress is what goes into the pod, units stay", () => {
    const bandwidth = {
      ingressRate: 10 * MBIT,
      ingressBurst: MBIT,
      egressRate: 20 * MBIT,
      egressBurst: 2 * MBIT,
    };
    expect(settings({ bandwidth })).toEqual({
      toGuest: { rate: 10 * MBIT, burst: MBIT },
      fromGuest: { rate: 20 * MBIT, burst: 2 * MBIT },
    });
  });

  it("a limit of the runtime instead of the network's, zeros for none", () => {
    const runtimeConfig = {
      bandwidth: { ingressRate: 0, ingressBurst: 0, egressRate: MBIT, egressBurst: MBIT },
    };
    const bandwidth = { ingressRate: 7, ingressBurst: 7 };
    expect(settings({ bandwidth, runtimeConfig })).toEqual({ fromGuest: { rate: MBIT, burst: MBIT } });
  });

  it("a second rate on top of the first", () => {
    const bandwidth = { ingressRate: MBIT, ingressBurst: 1000 };
    const excessBandwidth = { rate: 2 * MBIT, burst: 2000 };
    expect(settings({ bandwidth, excessBandwidth })).toEqual({
      toGuest: { rate: MBIT, burst: 1000, excess: { rate: 2 * MBIT, burst: 2000 } },
    });
  });

  it("the switch's own knobs", () => {
    const keys = {
      txRetriesMax: 0,
      rxqAffinity: "0:3,1:7",
      protected: true,
      createBridge: true,
      portSecurity: true,
    };
    expect(settings(keys)).toEqual({
      transmitRetries: 0,
      receiveQueueCores: [
        [0, 3],
        [1, 7],
      ],
      isolated: true,
      createBridge: true,
      security: { addresses: [] },
    });
  });

  it("an OVN port: of the network, then CNI_ARGS, then args.cni", () => {
    const keys = { externalIds: { team: "a" } };
    const cni = { args: { cni: { OvnPort: "of-cni" } } };
    const ids = (id: string) => ({ externalIds: { team: "a", "iface-id": id } });
    expect(settings({ ...keys, ...cni }, { OvnPort: "of-args" })).toEqual(ids("of-args"));
    expect(settings({ ...keys, ...cni })).toEqual(ids("of-cni"));
    const network = { ...keys, ...cni, ifaceId: "of-net" };
    expect(settings(network, { OvnPort: "of-args" })).toEqual(ids("of-net"));
    expect(settings({ externalIds: { "iface-id": "x" } })).toEqual({ externalIds: { "iface-id": "x" } });
  });

  it("port security knows IPAM's addresses without their prefix, and none where it is off", () => {
    const ips = [{ address: "10.0.0.5/24" }, { address: "fd00::5/64" }];
    expect(withAddresses({ security: { addresses: [] } }, given(ips))).toEqual({
      security: { addresses: ["10.0.0.5", "fd00::5"] },
    });
    expect(withAddresses({}, given(ips))).toEqual({});
  });

  it("DHCP for guests that have addresses, where the network or its default says so", () => {
    const ipam = { type: "host-local" };
    const dns = { nameservers: ["10.0.0.53"], domain: "own", search: ["own"] };
    const asked = settings({ dhcp: true, ipam, dns });
    expect(asked).toEqual({ dhcp: { addresses: [], routes: [], dns } });
    const ips = [{ address: "10.0.0.5/24", gateway: "10.0.0.1" }];
    const routes = [
      { dst: "10.1.0.0/16", priority: 5 },
      { dst: "10.2.0.0/16", table: 7 },
    ];
    const ofIpam = { nameservers: ["10.0.0.53", "10.0.0.54"], domain: "other", search: [], options: ["x"] };
    expect(withAddresses(asked, { ips, routes, dns: ofIpam })).toEqual({
      dhcp: {
        addresses: ips,
        routes: [{ dst: "10.1.0.0/16" }],
        dns: { nameservers: ["10.0.0.53", "10.0.0.54"], domain: "own", search: ["own"] },
      },
    });
    const byDefault = (keys: object) => portSettingsOf(parse(keys), {}, { dhcp: true });
    expect([byDefault({ ipam }).dhcp !== undefined, settings({ ipam })]).toEqual([true, {}]);
    expect([byDefault({}), byDefault({ ipam, dhcp: false }), settings({ dhcp: false })]).toEqual([
      {},
      {},
      {},
    ]);
    expect(refusal(() => settings({ dhcp: true })).msg).toMatch(/dhcp: true needs ipam/);
  });

  it("a routed port: its table, and IPAM's addresses with their gateways", () => {
    const ipam = { type: "host-local" };
    expect(settings({ mode: "l2", ipam })).toEqual({});
    expect(settings({ mode: "l3", ipam })).toEqual({ routed: { vrf: 0, hosts: [] } });
    const routed = settings({ mode: "l3", vrf: 7, createVrf: true, ipam });
    const ips = [{ address: "10.0.0.5/24", gateway: "10.0.0.1" }, { address: "fd00::5/64" }];
    expect(withAddresses(routed, given(ips))).toEqual({
      routed: {
        vrf: 7,
        createVrf: true,
        hosts: [{ address: "10.0.0.5", gateway: "10.0.0.1" }, { address: "fd00::5" }],
      },
    });
  });

  it.each([
    [{ mode: "l3" }, "mode"],
    [{ mode: "l3", ipam: { type: "" } }, "mode"],
    [{ vrf: 7 }, "vrf"],
    [{ mode: "l2", createVrf: true }, "createVrf"],
    [{ mode: "l3", ipam: { type: "x" }, bridge: "blue" }, "bridge"],
    [{ mode: "l3", ipam: { type: "x" }, vlan: 5 }, "vlan"],
    [{ mode: "l3", ipam: { type: "x" }, protected: true }, "protected"],
    [{ mode: "l3", ipam: { type: "x" }, vrf: 2 ** 32 - 1 }, "vrf"],
    [{ mode: "l4" }, "mode"],
  ])("a routed port: not by keys that contradict each other, %j", (keys, key) => {
    const { code, msg } = refusal(() => settings(keys));
    expect([code, msg]).toEqual([7, expect.stringContaining(`${key}: `)]);
  });

  it("always satisfies the switch's side of the contract", () => {
    const keys = {
      vlan: 5,
      trunk: [{ id: 6 }],
      vlanMode: "native-tagged",
      bandwidth: { ingressRate: 9, ingressBurst: 9, egressRate: 9, egressBurst: 9 },
      excessBandwidth: { rate: 9, burst: 9 },
      txRetriesMax: 32,
      rxqAffinity: "0:0",
      protected: true,
      ifaceId: "i",
      portSecurity: true,
      createBridge: true,
    };
    expect(portSettingsSchema.parse(settings(keys))).toEqual(settings(keys));
  });
});

describe("a network configuration is refused, by key and value,", () => {
  it.each([
    ["vlan: 4095", { vlan: 4095 }],
    ["vlan: -1", { vlan: -1 }],
    ['vlan: "100"', { vlan: "100" }],
    ["vlan: 1.5", { vlan: 1.5 }],
    ['trunk.1: {"id":5000}', { trunk: [{ id: 1 }, { id: 5000 }] }],
    ['trunk.0: {"minID":9,"maxID":2}', { trunk: [{ minID: 9, maxID: 2 }] }],
    ['trunk.0: {"minID":9}', { trunk: [{ minID: 9 }] }],
    ['trunk: "1-5"', { trunk: "1-5" }],
    ['vlanMode: "access-ish"', { vlanMode: "access-ish" }],
    ['qinqEthertype: "0x9100"', { vlan: 1, vlanMode: "dot1q-tunnel", qinqEthertype: "0x9100" }],
    ["mtu: 67", { mtu: 67 }],
    ["mtu: 9703", { mtu: 9703 }],
    ["txRetriesMax: 33", { txRetriesMax: 33 }],
    ['rxqAffinity: "0-3"', { rxqAffinity: "0-3" }],
    ['rxqAffinity: "0:3,0:4"', { rxqAffinity: "0:3,0:4" }],
    ['protected: "yes"', { protected: "yes" }],
    ["portSecurity: 1", { portSecurity: 1 }],
    ["createBridge: null", { createBridge: null }],
    ['bandwidth.ingressRate: "10M"', { bandwidth: { ingressRate: "10M" } }],
    ["runtimeConfig.bandwidth.egressRate: -1", { runtimeConfig: { bandwidth: { egressRate: -1 } } }],
    ["excessBandwidth.burst: missing", { excessBandwidth: { rate: 1 } }],
    ["externalIds.a: 1", { externalIds: { a: 1 } }],
    ['bridge: ""', { bridge: "" }],
    ['name: "a/b"', { name: "a/b" }],
  ])("%s", (says, keys) => {
    const { code, msg } = refusal(() => parse(keys));
    expect(code).toBe(7);
    expect(msg).toContain(`${says}: `);
  });

  it.each([
    ['vlan: 5 cannot stand beside vlanMode "trunk"', { vlan: 5, vlanMode: "trunk" }],
    ['vlanMode: "access" needs vlan', { vlanMode: "access" }],
    ['vlanMode: "native-tagged" needs vlan', { vlanMode: "native-tagged", trunk: [1] }],
    ["cannot stand beside vlanMode", { vlan: 5, vlanMode: "access", trunk: [{ id: 6 }] }],
    ["cannot stand beside vlanMode", { vlan: 5, vlanMode: "dot1q-tunnel", trunk: [{ id: 6 }] }],
    ["vlan: 5 stands beside trunk", { vlan: 5, trunk: [{ id: 6 }] }],
    ['needs vlanMode "dot1q-tunnel"', { vlan: 5, customerVlans: [1] }],
    ['qinqEthertype: "802.1ad" needs vlanMode', { qinqEthertype: "802.1ad" }],
    ["bandwidth.ingressRate: 5 needs ingressBurst", { bandwidth: { ingressRate: 5 } }],
    ["bandwidth.egressBurst: 5 needs egressRate", { bandwidth: { egressBurst: 5, egressRate: 0 } }],
    ["comes on top of bandwidth.ingressRate", { excessBandwidth: { rate: 1, burst: 1 } }],
    ["externalIds.iface-id", { ifaceId: "a", externalIds: { "iface-id": "b" } }],
  ])("where keys contradict each other: %s", (says, keys) => {
    const { code, msg } = refusal(() => settings(keys));
    expect(code).toBe(7);
    expect(msg).toContain(says);
  });

  it.each([
    ["vlanId: 5", { vlanId: 5 }, "vlan"],
    ["trunks: [5]", { trunks: [5] }, "trunk"],
    ["ingressPolicingRate: 1000", { ingressPolicingRate: 1000 }, "bandwidth.egressRate"],
    ["vlanid: 5", { vlanid: 5 }, "write vlan"],
    ["portSecurty: true", { portSecurty: true }, "write portSecurity"],
    ["bandwith: {}", { bandwith: {} }, "write bandwidth"],
    ["bandwidth.ingresRate: 5", { bandwidth: { ingresRate: 5 } }, "write bandwidth.ingressRate"],
    ["capabilities.deviceId: true", { capabilities: { deviceId: true } }, "write capabilities.deviceID"],
    ["dns.nameserver: []", { dns: { nameserver: [] } }, "write dns.nameservers"],
    ["excessBandwidth.brust: 5", { excessBandwidth: { brust: 5 } }, "write excessBandwidth.burst"],
    ["ipMasq: true", { ipMasq: true }, "leave it out"],
    [
      'runtimeConfig.bandwidth.unshapedSubnets: ["10.0.0.0/8"]',
      { runtimeConfig: { bandwidth: { unshapedSubnets: ["10.0.0.0/8"] } } },
      "leave it out",
    ],
  ])("where a mistyped or another plugin's key would be ignored: %s", (says, keys, instead) => {
    const { code, msg, details } = refusal(() => parse(keys));
    expect(code).toBe(2);
    expect(msg).toContain(says);
    expect(`${msg}; ${details}`).toContain(instead);
  });

  it("but not for an unknown key, which is reported, nor for one with another program's domain", () => {
    const keys = {
      spoofchk: "on",
      dns: { ttl: 5 },
      "example.org/x": 1,
      args: { cni: { vpn: 1 } },
      pciBusID: "",
    };
    const config = parse({ ...keys, vlan: 5, ipam: { type: "host-local", rangeset: [] } });
    expect(config.ignoredKeys).toEqual(["dns.ttl", "spoofchk"]);
    expect(config.vlan).toBe(5);
    expect(parse({ vlan: 5 }).ignoredKeys).toEqual([]);
  });

  it.each([
    ["0.1.0", 1],
    ["0.2.0", 1],
    ["2.0.0", 1],
    ["", 1],
    [1, 1],
    [undefined, 1],
  ])("for its cniVersion %j, whatever else is wrong with it", (cniVersion, code) => {
    expect(refusal(() => parse({ cniVersion, vlan: "x" })).code).toBe(code);
  });

  it.each(["", "{", "[]", "null", '"text"', "7"])("as no configuration at all: %j", (text) => {
    expect(refusal(() => parseNetworkConfig(Buffer.from(text))).code).toBe(6);
  });
});
