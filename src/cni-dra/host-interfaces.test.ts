import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import type { networkInterfaces } from "node:os";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makePciSysfs } from "../../test/stand-in/pci-sysfs.ts";
import { type DriverConfig, driverConfigSchema } from "./driver-config.ts";
import { readDevices } from "./host-interfaces.ts";

const PCI = "0000:3b:00.1";
let directory: string;
let sysfs: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-"));
  sysfs = await makePciSysfs(directory, [{ address: PCI, below: "pci0000:3a/0000:3a:00.0", numaNode: 1 }]);
  await mkdir(join(directory, "bin"));
});
afterEach(() => rm(directory, { recursive: true }));

/** An interface, with the device below `sys/devices` that is behind it. */
async function makeInterface(name: string, device: string, files: Readonly<Record<string, string>> = {}) {
  const top = join(sysfs, "class/net", name);
  await mkdir(top, { recursive: true });
  await mkdir(join(sysfs, "devices", device), { recursive: true });
  await symlink(`../../../devices/${device}`, join(top, "device"));
  for (const [file, text] of Object.entries(files)) await writeFile(join(top, file), `${text}\n`);
}
async function install(...names: readonly string[]) {
  for (const name of names) await writeFile(join(directory, "bin", name), "", { mode: 0o755 });
}
const devices = (config: Partial<DriverConfig> = {}, addresses: object = {}) =>
  readDevices({
    ...{ config: driverConfigSchema.parse(config), sysfs, pluginDirectory: join(directory, "bin") },
    addresses: () => addresses as ReturnType<typeof networkInterfaces>,
  });

it("an interface says what it is, where it is and which addresses it has", async () => {
  const device = `pci0000:3a/0000:3a:00.0/${PCI}`;
  await makeInterface("eth1", device, { address: "02:00:00:00:00:01", mtu: "9000" });
  await writeFile(join(sysfs, "devices", device, "vendor"), "0x15b3\n");
  await writeFile(join(sysfs, "devices", device, "device"), "0x1017\n");
  const [, eth1] = await devices(
    {},
    {
      eth1: [
        { address: "192.0.2.7", cidr: "192.0.2.7/24", internal: false },
        { address: "fe80::1", cidr: "fe80::1/64", internal: false },
        { address: "2001:db8::7", cidr: "2001:db8::7/64", internal: false },
        ...Array(9).fill({ address: "192.0.2.8", cidr: "192.0.2.8/32", internal: false }),
      ],
    },
  );
  expect(eth1).toEqual({
    name: "eth1",
    allowMultipleAllocations: true,
    attributes: {
      interfaceName: { string: "eth1" },
      macAddress: { string: "02:00:00:00:00:01" },
      // No more than an attribute has room for.
      addresses: { string: "192.0.2.7/24,2001:db8::7/64,192.0.2.8/32,192.0.2.8/32" },
      "resource.kubernetes.io/pciBusID": { string: PCI },
      "resource.kubernetes.io/pcieRoot": { string: "pci0000:3a" },
      ...{ vendor: { string: "15b3" }, product: { string: "1017" } },
      ...{ mtu: { int: 9000 }, numaNode: { int: 1 } },
    },
  });
});

it.each([
  ["virtio", `pci0000:3a/0000:3a:00.0/${PCI}/virtio3`, { string: PCI }],
  ["USB", `pci0000:3a/0000:3a:00.0/${PCI}/usb1/1-1`, undefined],
])("the PCI device of an interface by %s", async (_, device, expected) => {
  await makeInterface("eth1", device);
  const [, eth1] = await devices();
  expect(eth1?.attributes["resource.kubernetes.io/pciBusID"]).toEqual(expected);
});

it("plugins are attributes of every device, first those that claims may use, as many as a device can have", async () => {
  await makeInterface("eth1", "virtual");
  await install("macvlan", "host-local", "3com", ...Array.from({ length: 40 }, (_, index) => `a${index}`));
  await chmod(join(directory, "bin/macvlan"), 0o644);
  await mkdir(join(directory, "bin/folder"));
  const all = await devices({ allowedPlugins: { "host-local": ["ranges"], macvlan: [] } });
  for (const { attributes } of all) {
    const names = Object.keys(attributes);
    const plugins = names.filter((key) => key.startsWith("plugins.cni.dra.networking.x-k8s.io/"));
    expect(plugins[0]).toBe("plugins.cni.dra.networking.x-k8s.io/host_local");
    expect(plugins.join()).not.toMatch(/macvlan|3com|folder/);
    expect(names).toHaveLength(30);
  }
});

it("capacity is what the administrator states, and interfaces are those that are listed", async () => {
  await makeInterface("eth1", "virtual");
  await mkdir(join(sysfs, "class/net/bond0"));
  expect((await devices()).map(({ name, capacity }) => [name, capacity])).toEqual([
    ["cni", undefined],
    ["eth1", undefined],
  ]);
  const [cni, bond0, ...others] = await devices({
    interfaces: [{ name: "bond0", maxVirtualDevices: 64, bandwidth: 25_000_000_000 }, { name: "eth7" }],
  });
  expect([cni?.capacity, others]).toEqual([undefined, []]);
  expect(bond0?.capacity).toEqual({
    maxVirtualDevices: { value: "64", requestPolicy: { default: "1", validValues: ["1"] } },
    bandwidth: { value: "25000000000", requestPolicy: { default: "0", validRange: { min: "0" } } },
  });
});
