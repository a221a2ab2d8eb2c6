import { createHash } from "node:crypto";

/**
 * Whether a text can be an interface's name: what the kernel takes (CNI spec, CNI_IFNAME), without control characters
 * and marks that change the direction of writing, which would mislead readers of logs.
 */
export function isInterfaceName(name: string): boolean {
  if (name === "." || name === "..") return false;
  return /^[^\s/:\p{C}]{1,15}$/u.test(name) && Buffer.byteLength(name) <= 15;
}

/** KubeVirt's name of a secondary network's pod interface: `pod` and 11 hex digits of sha256 of the network's name. */
export function hashedPodInterfaceName(network: string): string {
  return `pod${createHash("sha256").update(network).digest("hex").slice(0, 11)}`;
}

/** KubeVirt's old ordinal scheme: `net1` for the first secondary network, and so on. */
export function isOrdinalPodInterfaceName(name: string): boolean {
  return /^net\d+$/.test(name);
}
