import { describe, expect, it } from "vitest";
import { networkStatus } from "./network-status.ts";

const name = "nets/lan";
const inSandbox = { name: "net1", mac: "02:00:00:00:00:01", sandbox: "/run/netns/a" };

describe("the network-status of an attachment", () => {
  it("has MAC, MTU, addresses, gateway and device-info of the one interface", () => {
    const result = {
      cniVersion: "1.1.0",
      interfaces: [{ ...inSandbox, mtu: 9000 }],
      ips: [{ address: "10.0.0.9/24" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }, { dst: "10.9.0.0/16" }],
    };
    expect(networkStatus(name, result, { type: "vhost-user" })).toEqual([
      {
        name,
        interface: "net1",
        mac: "02:00:00:00:00:01",
        mtu: 9000,
        ips: ["10.0.0.9"],
        gateway: ["10.0.0.1"],
        dns: {},
        "device-info": { type: "vhost-user" },
      },
    ]);
  });

  it("has no MTU from a result before CNI 1.1.0", () => {
    const result = { cniVersion: "1.0.0", interfaces: [{ ...inSandbox, mtu: 9000 }] };
    expect(networkStatus(name, result, undefined)[0]).not.toHaveProperty("mtu");
  });

  it("does not name an interface that has no sandbox", () => {
    const result = { cniVersion: "1.1.0", interfaces: [{ ...inSandbox, sandbox: "" }] };
    expect(networkStatus(name, result, undefined)).toEqual([{ name, dns: {} }]);
  });

  it("leaves host interfaces out where there are several", () => {
    const result = {
      cniVersion: "1.1.0",
      interfaces: [{ name: "host0" }, inSandbox],
      ips: [
        { address: "10.0.0.1/24", interface: 0 },
        { address: "10.0.0.9/24", interface: 1 },
      ],
    };
    expect(networkStatus(name, result, undefined)).toMatchObject([{ interface: "net1", ips: ["10.0.0.9"] }]);
  });

  it("has no element at all for a result without interface", () => {
    expect(networkStatus(name, { cniVersion: "1.1.0" }, { type: "vhost-user" })).toEqual([]);
  });
});
