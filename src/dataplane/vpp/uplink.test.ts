import { describe, expect, it } from "vitest";
import { soon } from "../../../test/contract/switch-under-test.ts";
import { makePciSysfs } from "../../../test/stand-in/pci-sysfs.ts";
import { startVppInDirectory } from "../../../test/stand-in/vpp/vpp-in-directory.ts";
import { silentLogger } from "../../logging/logger.ts";
import { connectVpp } from "../../protocols/vpp-api/connection.ts";
import { createVlan, dumpInterfaces, setBridge } from "../../protocols/vpp-api/messages.ts";
import { pciAddress } from "./uplink.ts";
import { openVppDataplane } from "./vpp-dataplane.ts";

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

it("tells what the network cards of a bridge domain, or of VLANs in it, have in common", async () => {
  const nics = ["TenGigabitEthernet3b/0/0", "TenGigabitEthernet3b/0/1", "TenGigabitEthernetb1/0/0"] as const;
  await using ending = new AsyncDisposableStack();
  const node = await startVppInDirectory({ nics });
  ending.defer(node.close);
  const below = "pci0000:3a/0000:3a:00.0";
  const sysfs = await makePciSysfs(node.directory, [
    { address: "0000:3b:00.0", below, numaNode: 0 },
    { address: "0000:3b:00.1", below, numaNode: 0 },
    { address: "0000:b1:00.0", below: "pci0000:b0", numaNode: 1 },
  ]);
  const connection = await connectVpp({ path: node.apiSocket }, soon());
  ending.defer(() => connection.close());
  const all = { sw_if_index: 0xffff_ffff, name_filter_valid: false, name_filter: "" };
  const rows = await connection.dump(dumpInterfaces, all, soon());
  const indexOf = (name: string) => rows.find((row) => row.interface_name === name)?.sw_if_index ?? 0;
  const add = async (bd_id: number, rx_sw_if_index: number) => {
    const member = { rx_sw_if_index, bd_id, port_type: 0, shg: 0, enable: true };
    await connection.request(setBridge, member, soon());
  };
  await add(1, indexOf(nics[0]));
  await add(2, indexOf(nics[1]));
  const sub = { sw_if_index: indexOf(nics[0]), vlan_id: 7 };
  await add(2, (await connection.request(createVlan, sub, soon())).sw_if_index);
  await add(3, indexOf(nics[2]));
  const other = { sw_if_index: indexOf(nics[1]), vlan_id: 7 };
  await add(3, (await connection.request(createVlan, other, soon())).sw_if_index);

  const { apiSocket } = node;
  const dataplane = openVppDataplane({
    ...{ apiSocket, node: "node-a", ownersOf: () => [], logger: silentLogger, sysfs },
  });
  ending.defer(() => dataplane.close());
  const common = { numaNode: 0, pcieRoot: "pci0000:3a", mtu: 9000 };
  expect(await dataplane.uplink("1", soon())).toEqual({ ...common, pciAddress: "0000:3b:00.0" });
  expect(await dataplane.uplink("2", soon())).toEqual(common);
  expect(await dataplane.uplink("3", soon())).toEqual({ mtu: 9000 });
  expect(await dataplane.uplink("4", soon())).toEqual({});
});
