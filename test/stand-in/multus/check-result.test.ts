import { describe, expect, it } from "vitest";
import { checkResult } from "./check-result.ts";

const netInterface = { name: "net1", mac: "02:00:00:00:00:01", sandbox: "/run/netns/a" };

describe("the check of a CNI result", () => {
  it.each([
    ["0.3.1", { ips: [{ version: "4", address: "10.0.0.1/24", interface: 0 }] }],
    ["0.4.0", { ips: [{ version: "6", address: "fd00::1/64", gateway: "fd00::2" }] }],
    ["1.0.0", { ips: [{ address: "10.0.0.1/24" }], dns: { nameservers: ["10.0.0.53"] } }],
    ["1.1.0", { interfaces: [{ ...netInterface, mtu: 9000, socketPath: "/run/a.sock" }] }],
    ["1.1.0", { routes: [{ dst: "::/0", gw: "fd00::2", mtu: 1400 }] }],
  ])("takes what version %s allows: %j", (cniVersion, keys) => {
    const result = { cniVersion, interfaces: [netInterface], ...keys };
    expect(checkResult(result)).toEqual(result);
  });

  it.each([
    ["0.4.0", { ips: [{ address: "10.0.0.1/24" }] }, "ips[0].version"],
    ["1.0.0", { ips: [{ version: "4", address: "10.0.0.1/24" }] }, "version"],
    ["1.0.0", { interfaces: [{ ...netInterface, mtu: 9000 }] }, "mtu"],
    ["1.0.0", { interfaces: [{ ...netInterface, socketPath: "/run/a.sock" }] }, "socketPath"],
    ["1.1.0", { interfaces: [{ ...netInterface, mtu: "9000" }] }, "mtu"],
    ["1.1.0", { interfaces: [{ name: "a-name-that-is-too-long" }] }, "too long"],
    ["1.1.0", { interfaces: [{ mac: netInterface.mac }] }, "interfaces[0].name"],
    ["1.1.0", { interfaces: "none" }, "list"],
    ["1.1.0", { ips: [{ address: "10.0.0.1" }] }, "address"],
    ["1.1.0", { ips: [{ address: "10.0.0.1/33" }] }, "address"],
    ["1.1.0", { ips: [{ address: "10.0.0.1/24", interface: 1 }] }, "index"],
    ["1.1.0", { routes: [{ gw: "10.0.0.1" }] }, "routes[0].dst"],
    ["1.1.0", { dns: { servers: [] } }, "servers"],
  ])("refuses what version %s does not allow: %j", (cniVersion, keys, says) => {
    expect(() => checkResult({ cniVersion, interfaces: [netInterface], ...keys })).toThrow(says);
  });
});
