import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../failure/failure.ts";
import { present } from "../names/present.ts";

/** What all physical ports behind a bridge have in common; what they do not, or do not have, is absent. */
export interface Uplink {
  readonly numaNode?: number;
  /** As `0000:3b:00.1`; ports of several network cards have none in common. */
  readonly pciAddress?: string;
  /** The PCIe root complex and its bus, as `pci0000:3a`. */
  readonly pcieRoot?: string;
  /** In bytes. */
  readonly mtu?: number;
}

/** @param ports what is known of each physical port */
export function commonUplink(ports: readonly Uplink[]): Uplink {
  const common = <Value>(read: (port: Uplink) => Value): Value | undefined => {
    const [first, ...others] = new Set(ports.map(read));
    return others.length === 0 ? first : undefined;
  };
  return present({
    numaNode: common(({ numaNode }) => numaNode),
    pciAddress: common(({ pciAddress }) => pciAddress),
    pcieRoot: common(({ pcieRoot }) => pcieRoot),
    mtu: common(({ mtu }) => mtu),
  });
}

/**
 * A PCI device as the kernel has it; no more than its address where it is gone, or the kernel has no NUMA.
 * @param sysfs where sysfs is mounted
 */
export async function pciDevice(sysfs: string, pciAddress: string): Promise<Omit<Uplink, "mtu">> {
  const device = join(sysfs, "bus/pci/devices", pciAddress);
  const [node, path] = await Promise.all([
    unlessMissing(readFile(join(device, "numa_node"), "utf8")),
    unlessMissing(realpath(device)),
  ]);
  const pcieRoot = path?.split("/").find((part) => /^pci[0-9a-f]{4,}:[0-9a-f]{2}$/.test(part));
  return present({ numaNode: parseNode(node), pciAddress, pcieRoot });
}

/** A node's number; DPDK and the kernel have -1 for hardware without a node. */
export function parseNode(text = ""): number | undefined {
  return /^\d{1,4}\s*$/.test(text) ? Number(text) : undefined;
}

async function unlessMissing(read: Promise<string>): Promise<string | undefined> {
  try {
    return await read;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}
