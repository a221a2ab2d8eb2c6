import { describe, expect, it } from "vitest";
import { type PortSettings, portSettingsSchema } from "../../../config/port-settings.ts";
import type { PortRequest } from "../../port.ts";
import { checkRequest } from "./check-request.ts";

function request(settings: PortSettings, changes: Partial<PortRequest> = {}): PortRequest {
  return {
    name: "vhu1",
    bridge: "br-a",
    socketPath: "/run/vhost/one.sock",
    settings,
    owner: {
      node: "node-a",
      podNamespace: "shop",
      podName: "web",
      podUid: "",
      containerId: "c1",
      interfaceName: "net1",
      network: "fast",
      mac: "02:00:00:00:00:01",
      allocationId: "0123456789abcdef",
    },
    ...changes,
  };
}
const vlan = (settings: object) => ({ vlan: { trunks: [], customerVlans: [], ...settings } });
/** 1500 bytes of MTU and two VLAN tags. */
const FRAME_BITS = 1508 * 8;

describe("settings that Open vSwitch would not honour", () => {
  it.each<[string, object, string]>([
    ["an access port without a tag", vlan({ mode: "access" }), 'vlanMode: "access": vlan is missing'],
    ["a tunnel without a tag", vlan({ mode: "dot1q-tunnel" }), "vlan is missing"],
    ["a native port without a tag", vlan({ mode: "native-tagged" }), "vlan is missing"],
    ["a trunk with a tag", vlan({ mode: "trunk", tag: 5 }), "would ignore vlan 5"],
    ["an access port with trunks", vlan({ mode: "access", tag: 5, trunks: [6, 7] }), "ignore trunk 6, 7"],
    ["a tunnel with trunks", vlan({ mode: "dot1q-tunnel", tag: 5, trunks: [6] }), "ignore trunk 6"],
    [
      "customer VLANs outside a tunnel",
      vlan({ mode: "trunk", customerVlans: [3] }),
      "only dot1q-tunnel has customerVlans",
    ],
    [
      "a tunnel's EtherType outside a tunnel",
      vlan({ mode: "access", tag: 5, tunnelEthertype: "802.1q" }),
      "only dot1q-tunnel has qinqEthertype",
    ],
    [
      "a burst from the guest below a frame",
      { fromGuest: { rate: 1e9, burst: FRAME_BITS - 1 } },
      "one frame",
    ],
    ["a burst to the guest below a frame", { toGuest: { rate: 1e9, burst: FRAME_BITS - 1 } }, "one frame"],
    [
      "an excess burst below a frame",
      { toGuest: { rate: 1e9, burst: 0, excess: { rate: 1e9, burst: 1 } } },
      "one frame",
    ],
    ["a rate above 32 bits of kbit/s", { fromGuest: { rate: 2 ** 32 * 1000, burst: 0 } }, "4294967295 kbit"],
    [
      "retries of a socket that the switch makes",
      { transmitRetries: 3, socketServer: "switch" },
      "no retries to set",
    ],
    ["no queue at all", { receiveQueueCores: [] }, "no queue is named"],
    ["a queue twice", { receiveQueueCores: [[0, 1], [0, 2]] }, "queue 0 is named twice"], // biome-ignore format: a pair each
    ["a mark of ours", { externalIds: { owner: "me" } }, '"owner" is ours'],
    ["our list of settings", { externalIds: { "port-settings": "" } }, '"port-settings" is ours'],
    ["a key with a blank", { externalIds: { "iface id": "x" } }, '"iface id" cannot be a key'],
    ["a value with a NUL", { externalIds: { "iface-id": "a\0b" } }, "control character"],
  ])("are refused: %s", (_what, settings, words) => {
    expect(() => checkRequest(request(portSettingsSchema.parse(settings)), "node-a")).toThrow(
      expect.objectContaining({ code: "invalid-network-config", message: expect.stringContaining(words) }),
    );
  });

  it.each([-1, 33, 1.5])("are refused: %d transmit retries", (transmitRetries) => {
    expect(() => checkRequest(request({ transmitRetries }), "node-a")).toThrow("0 to 32");
  });

  it("count the frame by the MTU", () => {
    const settings = { toGuest: { rate: 1e9, burst: FRAME_BITS } };
    expect(() => checkRequest(request(settings), "node-a")).not.toThrow();
    expect(() => checkRequest(request(settings, { mtu: 1501 }), "node-a")).toThrow("one frame");
  });

  it("are refused: a bridge to be made whose name is no device's", () => {
    expect(() =>
      checkRequest(request({ createBridge: true }, { bridge: "sixteen-letters-" }), "node-a"),
    ).toThrow("cannot name a bridge");
  });

  it.each<object>([
    vlan({ mode: "access", tag: 5 }),
    vlan({ mode: "trunk", trunks: [0, 4094] }),
    vlan({ mode: "native-untagged", tag: 5, trunks: [6] }),
    vlan({ mode: "native-tagged", tag: 5 }),
    vlan({ mode: "dot1q-tunnel", tag: 5, customerVlans: [6], tunnelEthertype: "802.1q" }),
    { fromGuest: { rate: 1, burst: 0 }, toGuest: { rate: 1, burst: 0, excess: { rate: 1, burst: 0 } } },
    { transmitRetries: 0, receiveQueueCores: [[1, 2]], isolated: false, createBridge: true },
    { externalIds: { "iface-id": "5d4e", "vm-id": "", "ovn.org/x": "ü" } },
  ])("are not these: %j", (settings) => {
    expect(() => checkRequest(request(portSettingsSchema.parse(settings)), "node-a")).not.toThrow();
  });
});
