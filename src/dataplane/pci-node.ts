import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../failure/failure.ts";

/**
 * The NUMA node of a PCI device as the kernel has it; undefined for a device without a node, or that is gone.
 * @param sysfs where sysfs is mounted
 */
export async function pciNode(sysfs: string, address: string): Promise<number | undefined> {
  try {
    return parseNode(await readFile(join(sysfs, "bus/pci/devices", address, "numa_node"), "utf8"));
  } catch (error) {
    // Also a kernel without NUMA.
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** A node's number; DPDK and the kernel have -1 for hardware without a node. */
export function parseNode(text = ""): number | undefined {
  return /^\d{1,4}\s*$/.test(text) ? Number(text) : undefined;
}
