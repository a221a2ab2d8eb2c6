import { describe, expect, it } from "vitest";
import { networkInfo, podInterfaceName } from "./network-info.ts";
import type { VirtualMachineInstance } from "./vmi.ts";

const vmi: VirtualMachineInstance = {
  metadata: { name: "a", namespace: "b" },
  spec: {
    domain: {
      devices: {
        interfaces: [
          { name: "default", masquerade: {} },
          { name: "red", binding: { name: "vhostuser" } },
          { name: "blue", binding: { name: "vhostuser" } },
          { name: "passt", binding: { name: "passt" } },
        ],
      },
    },
    networks: [
      { name: "default", pod: {} },
      ...["red", "blue", "passt"].map((name) => ({ name, multus: { networkName: name } })),
    ],
  },
};

describe("virt-controller's network-info", () => {
  it("lists interfaces of the binding that Multus reported, sorted by network, with what is known of them", () => {
    const statuses = ["red", "blue", "passt"].map((name) => ({
      name: `b/${name}`,
      interface: podInterfaceName(vmi, name),
      ...(name === "red"
        ? { mac: "02:00:00:00:00:01", mtu: 9000, "device-info": { type: "vhost-user" } }
        : {}),
    }));
    expect(JSON.parse(networkInfo(vmi, statuses))).toEqual({
      interfaces: [
        { network: "blue" },
        { network: "red", deviceInfo: { type: "vhost-user" }, mac: "02:00:00:00:00:01", mtu: 9000 },
      ],
    });
  });

  it("is empty while Multus has reported nothing", () => {
    expect(networkInfo(vmi, [])).toBe("");
  });

  it("names pod interfaces as KubeVirt does", () => {
    expect(podInterfaceName(vmi, "default")).toBe("eth0");
    expect(podInterfaceName(vmi, "blue")).toBe("pod16477688c0e");
    const ordinal = { ...vmi, status: { interfaces: [{ name: "blue", podInterfaceName: "net2" }] } };
    expect(podInterfaceName(ordinal, "blue")).toBe("net2");
  });
});
