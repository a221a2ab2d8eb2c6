import { BlockList, isIPv4, isIPv6 } from "node:net";
import { Failure } from "../../../failure/failure.ts";
import { ipv4Bytes, ipv6Bytes } from "../../../names/ip-address.ts";
import { parseUnicastMac } from "../../../names/mac-address.ts";

/** What a guest may claim to be, as bytes. */
export interface Identity {
  readonly mac: Buffer;
  /** 4 bytes each. */
  readonly ipv4: readonly Buffer[];
  /** 16 bytes each. */
  readonly ipv6: readonly Buffer[];
}

/**
 * Reads a MAC and addresses without prefix length; duplicates are dropped.
 * @throws Failure invalid-request for what no single guest can have
 */
export function readIdentity(mac: string, addresses: readonly string[]): Identity {
  const normal = parseUnicastMac(mac);
  if (normal === undefined) {
    throw invalid(`${JSON.stringify(mac)} is not a MAC address that a guest can have`);
  }
  const ipv4 = addresses.filter((address) => isIPv4(address)).map(ipv4Bytes);
  const ipv6 = addresses.filter((address) => isIPv6(address) && !address.includes("%")).map(ipv6Bytes);
  const bad = addresses.find((address) => !isHostAddress(address));
  if (bad !== undefined) throw invalid(`${JSON.stringify(bad)} is not an address that a guest can have`);
  return { mac: Buffer.from(normal.replaceAll(":", ""), "hex"), ipv4: distinct(ipv4), ipv6: distinct(ipv6) };
}

/** The link-local address that a guest makes of its MAC (RFC 4291 appendix A: modified EUI-64). */
export function linkLocalAddress(mac: Buffer): Buffer {
  const address = Buffer.alloc(16);
  address.writeUInt16BE(0xfe80, 0);
  mac.copy(address, 8, 0, 3);
  address.writeUInt16BE(0xfffe, 11);
  mac.copy(address, 13, 3, 6);
  address.writeUInt8(address.readUInt8(8) ^ 0x02, 8);
  return address;
}

/** Unspecified, multicast, broadcast: no host's own address. */
const NOT_HOSTS = new BlockList();
NOT_HOSTS.addSubnet("0.0.0.0", 8);
NOT_HOSTS.addSubnet("224.0.0.0", 4);
NOT_HOSTS.addAddress("255.255.255.255");
NOT_HOSTS.addAddress("::", "ipv6");
NOT_HOSTS.addSubnet("ff00::", 8, "ipv6");

function isHostAddress(address: string): boolean {
  if (isIPv4(address)) return !NOT_HOSTS.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return false;
  return !isMapped(ipv6Bytes(address)) && !NOT_HOSTS.check(address, "ipv6");
}

const isMapped = (bytes: Buffer): boolean =>
  bytes.subarray(0, 12).equals(Buffer.from("00000000000000000000ffff", "hex"));

function distinct(values: readonly Buffer[]): Buffer[] {
  return values.filter((value, index) => values.findIndex((other) => other.equals(value)) === index);
}

function invalid(what: string): Failure {
  return new Failure({
    code: "invalid-request",
    what,
    where: "port security",
    fix: "give a unicast MAC and single addresses of hosts, without prefix length or zone",
  });
}
