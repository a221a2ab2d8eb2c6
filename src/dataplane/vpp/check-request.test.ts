import { describe, expect, it } from "vitest";
import { type PortSettings, portSettingsSchema } from "../../config/port-settings.ts";
import type { PortRequest } from "../port.ts";
import { checkRequest } from "./check-request.ts";

const request = (settings: object, changes: Partial<PortRequest> = {}): PortRequest => ({
  name: "vhu0",
  bridge: "blue",
  socketPath: "/run/a/vhost.sock",
  settings: portSettingsSchema.parse(settings),
  owner: {
    node: "node-a",
    podNamespace: "",
    podName: "",
    podUid: "",
    containerId: "",
    interfaceName: "",
    network: "",
    mac: "",
    allocationId: "",
  },
  ...changes,
});
const codeOf = (asked: PortRequest, node = "node-a"): string | undefined => {
  try {
    checkRequest(asked, node);
    return undefined;
  } catch (thrown) {
    return (thrown as { readonly code: string }).code;
  }
};
const MBIT = 1_000_000;

describe("a request for a port of VPP", () => {
  it.each<PortSettings | object>([
    {},
    { vlan: { mode: "access", tag: 5 } },
    { vlan: { mode: "trunk" } },
    { vlan: { mode: "trunk", trunks: [5, 6] } },
    { vlan: { mode: "native-untagged", tag: 5, trunks: [5, 6] } },
    { vlan: { mode: "dot1q-tunnel", tag: 5, customerVlans: [6], tunnelEthertype: "802.1ad" } },
    { fromGuest: { rate: 1, burst: 0 }, toGuest: { rate: MBIT, burst: MBIT, excess: { rate: 1, burst: 0 } } },
    { isolated: true, socketServer: "switch", createBridge: true },
    { routed: { vrf: 0, hosts: [{ address: "10.0.0.5", gateway: "10.0.0.1" }] } },
    { routed: { vrf: 7, hosts: [{ address: "fd00::5", gateway: "fd00::1" }] }, socketServer: "switch" },
  ])("is accepted with what VPP can do (%#)", (settings) => {
    expect(codeOf(request(settings))).toBeUndefined();
  });

  it.each([
    ["no address", []],
    ["no gateway", [{ address: "10.0.0.5" }]],
    ["a gateway of the other family", [{ address: "10.0.0.5", gateway: "fd00::1" }]],
    ["a gateway that is the guest", [{ address: "fd00::5", gateway: "fd00:0::5" }]],
    ["a gateway of one link", [{ address: "fd00::5", gateway: "fe80::1" }]],
    ["a gateway that is a group", [{ address: "10.0.0.5", gateway: "224.0.0.1" }]],
    ["an address of one link", [{ address: "fe80::5", gateway: "fd00::1" }]],
    ["an IPv4 address of one link", [{ address: "169.254.0.5", gateway: "10.0.0.1" }]],
    ["an address of the loopback", [{ address: "0:0:0:0:0:0:0:1", gateway: "fd00::1" }]],
    ["an address that is a group", [{ address: "239.0.0.5", gateway: "10.0.0.1" }]],
    ["an unspecified address", [{ address: "::", gateway: "fd00::1" }]],
  ])("is refused for a routed port with %s", (_, hosts) => {
    expect(codeOf(request({ routed: { vrf: 0, hosts } }))).toBe("invalid-network-config");
  });

  it.each([{ vlan: { mode: "access", tag: 5 } }, { isolated: true }, { createBridge: true }])(
    "is refused for a routed port that is to be a bridge's too: %j",
    (settings) => {
      const routed = { vrf: 0, hosts: [{ address: "10.0.0.5", gateway: "10.0.0.1" }] };
      expect(codeOf(request({ routed, ...settings }))).toBe("invalid-network-config");
    },
  );

  it.each([
    ["txRetriesMax: 1", { transmitRetries: 1 }],
    [
      'rxqAffinity: "0:1,1:3"',
      {
        receiveQueueCores: [
          [0, 1],
          [1, 3],
        ],
      },
    ],
    ['externalIds: {"iface-id":"a"}', { externalIds: { "iface-id": "a" } }],
    ["portSecurity: true", { security: { addresses: [] } }],
    ["dhcp: true", { dhcp: { addresses: [], routes: [], dns: { nameservers: [], search: [] } } }],
    ['vlanMode: "native-tagged"', { vlan: { mode: "native-tagged", tag: 5, trunks: [6] } }],
    ['vlanMode: "native-untagged"', { vlan: { mode: "native-untagged", tag: 5 } }],
  ])("is refused for what VPP does not have, naming the network's key and value: %s", (written, settings) => {
    expect(() => checkRequest(request(settings), "node-a")).toThrow(
      expect.objectContaining({ code: "setting-unsupported", what: expect.stringContaining(`${written}: `) }),
    );
  });

  it.each([
    { vlan: { mode: "access" } },
    { vlan: { mode: "access", tag: 5, trunks: [6] } },
    { vlan: { mode: "trunk", tag: 5 } },
    { vlan: { mode: "trunk", trunks: [0, 5] } },
    { vlan: { mode: "trunk", trunks: [5], customerVlans: [6] } },
    { vlan: { mode: "access", tag: 5, tunnelEthertype: "802.1q" } },
    { vlan: { mode: "dot1q-tunnel", tag: 5, customerVlans: [0] } },
    { fromGuest: { rate: MBIT, burst: 1522 * 8 - 1 } },
    { toGuest: { rate: MBIT, burst: MBIT, excess: { rate: MBIT, burst: 1 } } },
  ])("is refused where it contradicts itself (%#)", (settings) => {
    expect(codeOf(request(settings))).toBe("invalid-network-config");
  });

  it.each<readonly [string, Partial<PortRequest>]>([
    ["invalid-request", { name: "a:b" }],
    ["invalid-request", { name: "x".repeat(16) }],
    ["path-too-long", { socketPath: `/${"x".repeat(107)}` }],
    ["directory-unsafe", { socketPath: "relative" }],
    ["port-failed", { mtu: 67 }],
    ["port-failed", { mtu: 9001 }],
  ])("is refused with %s where VPP would accept it silently (%#)", (code, changes) => {
    expect(codeOf(request({}, changes))).toBe(code);
  });

  it("needs a larger burst for larger frames, and a bridge that can be named", () => {
    const settings = { fromGuest: { rate: MBIT, burst: 20_000 } };
    expect(codeOf(request(settings))).toBeUndefined();
    expect(codeOf(request(settings, { mtu: 9000 }))).toBe("invalid-network-config");
    expect(codeOf(request({ createBridge: true }, { bridge: "x y" }))).toBe("invalid-network-config");
    expect(codeOf(request({}), "node-b")).toBe("internal");
  });
});
