import { BlockList, isIP, isIPv4 } from "node:net";
import { Address4, Address6 } from "ip-address";

/** The four bytes of an IPv4 address. */
export function ipv4Bytes(address: string): Buffer {
  return Buffer.from(new Address4(address).toArray());
}

/** The 16 bytes of an IPv6 address in any form that RFC 4291 section 2.2 allows; a zone is of the node, not of it. */
export function ipv6Bytes(address: string): Buffer {
  return Buffer.from(new Address6(address).toUnsignedByteArray());
}

/** Why an address cannot be that of one host that others reach by routes; undefined for one that can. */
export function whyNotRoutable(address: string): string | undefined {
  return KINDS.find(([, blocked]) => blocked.check(address, isIPv4(address) ? "ipv4" : "ipv6"))?.[0];
}

/** Whether a text is an address that only this machine, or this network namespace, can reach. */
export function isLoopback(address: string): boolean {
  return isIP(address) !== 0 && whyNotRoutable(address) === LOOPBACK;
}

/** Whether a text is one host's own address, without a zone; an IPv4 address in IPv6 form is not. */
export function isHostAddress(address: string): boolean {
  if (isIP(address) === 0 || address.includes("%")) return false;
  if (!isIPv4(address) && MAPPED.check(address, "ipv6")) return false;
  const kind = whyNotRoutable(address);
  return kind === undefined || kind === LOOPBACK || kind === ONE_LINK;
}

const LOOPBACK = "is of the loopback";
const ONE_LINK = "is of one link only";

/** RFC 6890 and RFC 4291 section 2.4. */
const KINDS = [
  ["is unspecified", blockList(["0.0.0.0", 8], ["::", 128])],
  [LOOPBACK, blockList(["127.0.0.0", 8], ["::1", 128])],
  [ONE_LINK, blockList(["169.254.0.0", 16], ["fe80::", 10])],
  ["is a multicast group", blockList(["224.0.0.0", 4], ["ff00::", 8])],
  ["is the broadcast address", blockList(["255.255.255.255", 32])],
] as const;
/** IPv4 addresses in IPv6 form; a list of its own, because it has all IPv4 addresses too. */
const MAPPED = blockList(["::ffff:0:0", 96]);

function blockList(...networks: readonly (readonly [network: string, prefix: number])[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of networks) {
    list.addSubnet(network, prefix, isIPv4(network) ? "ipv4" : "ipv6");
  }
  return list;
}
