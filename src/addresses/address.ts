import { isIP } from "node:net";
import { Address4, Address6 } from "ip-address";

export type Family = "ipv4" | "ipv6";

/** An address as an exact number. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

/** A network: its first address, and how many bits of it all its addresses have in common. */
export interface Prefix extends Address {
  readonly length: number;
}

/** Bits of an address. */
export const ADDRESS_BITS = { ipv4: 32, ipv6: 128 } as const;

/**
 * Parses an address in any form of its family; undefined for other texts, for an IPv6 address with a zone and for an IPv4
 * address in IPv6 form, which Go programs take for IPv4. Kubernetes' `ip()` in CEL refuses the same.
 */
export function parseAddress(text: string): Address | undefined {
  const version = isIP(text);
  if (version === 4) return { family: "ipv4", value: new Address4(text).bigInt() };
  if (version === 0 || text.includes("%")) return undefined;
  const address = new Address6(text);
  return address.isMapped4() ? undefined : { family: "ipv6", value: address.bigInt() };
}

/** Parses a network in CIDR form; undefined for other texts, and for an address inside a network (`10.0.0.5/24`). */
export function parsePrefix(text: string): Prefix | undefined {
  const [, base = "", digits = ""] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const [address, length] = [parseAddress(base), Number(digits)];
  if (address === undefined || length > ADDRESS_BITS[address.family]) return undefined;
  const prefix = prefixOf(address, length);
  return prefix.value === address.value ? prefix : undefined;
}

/** The network of this length that has the address. */
export function prefixOf({ family, value }: Address, length: number): Prefix {
  const hostBits = BigInt(ADDRESS_BITS[family] - length);
  return { family, value: (value >> hostBits) << hostBits, length };
}

/** The last address of a network. */
export function lastOf({ family, value, length }: Prefix): bigint {
  return value + (1n << BigInt(ADDRESS_BITS[family] - length)) - 1n;
}

export function isInPrefix(prefix: Prefix, { family, value }: Address): boolean {
  return family === prefix.family && value >= prefix.value && value <= lastOf(prefix);
}

/** The one text of an address that all programs write: for IPv6 that of RFC 5952. */
export function formatAddress({ family, value }: Address): string {
  return (family === "ipv4" ? Address4 : Address6).fromBigInt(value).correctForm();
}

/** A network in CIDR form, or an address with the length of its network's prefix. */
export function formatPrefix({ length, ...address }: Prefix): string {
  return `${formatAddress(address)}/${length}`;
}
