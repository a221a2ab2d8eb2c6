import { describe, expect, it } from "vitest";
import { pciAddress } from "./numa-node.ts";

describe("the PCI address in a name of VPP's", () => {
  it.each([
    ["GigabitEthernet0/8/0", "0000:00:08.0"],
    ["TenGigabitEthernet3b/0/1", "0000:3b:00.1"],
    ["HundredGigabitEthernet1/3b/1f/7", "0001:3b:1f.7"],
    ["local0", undefined],
    ["host-eth0", undefined],
    ["BondEthernet0", undefined],
    ["GigabitEthernet0/8/0.100", undefined],
  ])("%s", (interface_name, address) => {
    expect(pciAddress({ interface_name, interface_dev_type: "dpdk" })).toBe(address);
  });

  it("is absent from the name of a vhost-user interface, though it looks like one", () => {
    const name = { interface_name: "VirtualEthernet0/0/3", interface_dev_type: "vhost-user" };
    expect(pciAddress(name)).toBeUndefined();
  });
});
