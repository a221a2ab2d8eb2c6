import { createHash } from "node:crypto";

/** A MAC address that a NIC may have, not multicast and not all zero, in lower case with colons; else undefined. */
export function parseUnicastMac(text: string): string | undefined {
  const mac = text.toLowerCase().replaceAll("-", ":");
  if (!/^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$/.test(mac)) return undefined;
  return mac === "00:00:00:00:00:00" ? undefined : mac;
}

/** A locally administered unicast MAC that is the same for the same seed on every node. */
export function deriveMacAddress(seed: string): string {
  const bytes = createHash("sha256").update(seed).digest().subarray(0, 6);
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}
