import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A PCI device as the kernel shows it. */
export interface PciDevice {
  readonly address: string;
  /** The root complex and its bus, and the bridges on the way, as `pci0000:3a/0000:3a:00.0`. */
  readonly below: string;
  readonly numaNode: number;
}

/** Makes a sysfs with these devices, and returns where it is mounted. */
export async function makePciSysfs(directory: string, devices: readonly PciDevice[]): Promise<string> {
  const sysfs = join(directory, "sys");
  await mkdir(join(sysfs, "bus/pci/devices"), { recursive: true });
  for (const { address, below, numaNode } of devices) {
    const device = join(sysfs, "devices", below, address);
    await mkdir(device, { recursive: true });
    await writeFile(join(device, "numa_node"), `${numaNode}\n`);
    await symlink(`../../../devices/${below}/${address}`, join(sysfs, "bus/pci/devices", address));
  }
  return sysfs;
}
