import { createHash } from "node:crypto";

/** A MAC address in lower case with colons, or undefined where the text is not a MAC address. */
export function parseMacAddress(text: string): string | undefined {
  const lower = text.toLowerCase().replaceAll("-", ":");
  return /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(lower) ? lower : undefined;
}

/** Whether a NIC may carry it: not multicast, not all zero. */
export function isUnicastMac(mac: string): boolean {
  return (Number.parseInt(mac.slice(0, 2), 16) & 1) === 0 && mac !== "00:00:00:00:00:00";
}

/** A locally administered unicast MAC that is the same for the same seed on every node. */
export function deriveMacAddress(seed: string): string {
  const bytes = createHash("sha256").update(seed).digest().subarray(0, 6);
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}
