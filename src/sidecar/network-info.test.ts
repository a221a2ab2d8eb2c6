import { describe, expect, it } from "vitest";
import { parseNetworkInfo } from "./network-info.ts";

const PATH = "/var/run/vhostuser/sockets/pod6c270ef2f25/vhost.sock";
const deviceInfo = (extra: object = {}) => ({
  type: "vhost-user",
  version: "1.1.0",
  "vhost-user": { mode: "server", path: PATH, ...extra },
});
const info = (...interfaces: object[]) => JSON.stringify({ interfaces });

describe("parseNetworkInfo", () => {
  it("gives socket, MAC and MTU, and doesn't read other networks", () => {
    const text = info(
      { network: "sriov", deviceInfo: { type: "pci", version: "1.1.0", pci: {} }, mtu: 12 },
      { network: "a", deviceInfo: deviceInfo(), mac: "02:00:00:00:00:AA", mtu: 9000 },
      { network: "b", deviceInfo: null, mac: "", mtu: 0 },
    );
    expect(Object.fromEntries(parseNetworkInfo(text, "file", ["a", "b"]))).toEqual({
      a: { socketPath: PATH, mac: "02:00:00:00:00:aa", mtu: 9000 },
      b: { socketPath: undefined, mac: undefined, mtu: undefined },
    });
  });

  it("accepts a document without interfaces", () => {
    expect(parseNetworkInfo("{}", "file", ["a"]).size).toBe(0);
  });

  it.each<[string, string, object, string]>([
    ["device-info of another type", "invalid-network-info", { deviceInfo: { type: "pci" } }, '"pci"'],
    [
      "device-info without its part",
      "invalid-network-info",
      { deviceInfo: { type: "vhost-user", version: "1" } },
      "vhost-user",
    ],
    [
      "QEMU as the client",
      "invalid-network-info",
      { deviceInfo: deviceInfo({ mode: "client" }) },
      '"client"',
    ],
    ["an invalid MAC", "invalid-network-info", { mac: "xx" }, '"xx"'],
    ["a multicast MAC", "invalid-network-info", { mac: "ff:ff:ff:ff:ff:ff" }, "unicast"],
    ["an MTU too small", "invalid-network-info", { mtu: 67 }, "67"],
    ["an MTU too large", "invalid-network-info", { mtu: 65536 }, "65536"],
    ["an MTU that is no number", "invalid-network-info", { mtu: "9000" }, "interfaces.0.mtu"],
  ])("refuses %s", (_name, code, entry, words) => {
    expect(() => parseNetworkInfo(info({ network: "a", ...entry }), "the file", ["a"])).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(words) }),
    );
  });
});
