/** EtherTypes (IEEE 802 Numbers, IANA). */
export const ETHERTYPE = { ipv4: 0x0800, arp: 0x0806, vlan: 0x8100, rarp: 0x8035, ipv6: 0x86dd } as const;
/** Protocols above IP (IANA). */
export const PROTOCOL = { udp: 17, icmpv6: 58 } as const;
export const BROADCAST_MAC: Buffer = Buffer.alloc(6, 0xff);
/** Least length of an Ethernet frame without its checksum. */
const MIN_BYTES = 60;
const MAC_BYTES = 6;
const ETHERNET_BYTES = 14;
const IPV6_BYTES = 40;
const UDP_BYTES = 8;
const HOP_LIMIT = { udp: 64, icmpv6: 255 } as const;

/** A frame's two MACs and its packet's two addresses, 4 or 16 bytes each. */
export interface Ends {
  readonly macFrom: Buffer;
  readonly macTo: Buffer;
  readonly from: Buffer;
  readonly to: Buffer;
}

/** UDP ports and data. */
export interface Datagram {
  readonly portFrom: number;
  readonly portTo: number;
  readonly payload: Buffer;
}

/** What a frame carries, as far as a guest's requests for addresses are concerned. */
export type Packet = Ends &
  (({ readonly kind: "udp" } & Datagram) | { readonly kind: "icmpv6"; readonly message: Buffer });

export function words16(...values: readonly number[]): Buffer {
  return Buffer.from(values.flatMap((value) => [value >> 8, value & 0xff]));
}

/** @param text six bytes with colons */
export function macBytes(text: string): Buffer {
  return Buffer.from(text.replaceAll(":", ""), "hex");
}

/** The link-local address that a host makes of its MAC (RFC 4291 appendix A: modified EUI-64). */
export function linkLocalAddress(mac: Buffer): Buffer {
  const address = Buffer.alloc(16);
  address.writeUInt16BE(0xfe80, 0);
  mac.copy(address, 8, 0, 3);
  address.writeUInt16BE(0xfffe, 11);
  mac.copy(address, 13, 3, 6);
  address.writeUInt8(address.readUInt8(8) ^ 0x02, 8);
  return address;
}

/** A frame without its checksum, of the least length that a wire has or more. */
export function ethernet(to: Uint8Array, from: Buffer, type: number, payload: Buffer): Buffer {
  const frame = Buffer.concat([to, from, words16(type), payload]);
  return Buffer.concat([frame, Buffer.alloc(Math.max(0, MIN_BYTES - frame.length))]);
}

/** A frame with UDP over IPv4 or IPv6, by its addresses. */
export function udpFrame({ portFrom, portTo, payload, ...ends }: Ends & Datagram): Buffer {
  const datagram = Buffer.concat([words16(portFrom, portTo, UDP_BYTES + payload.length, 0), payload]);
  const sum = checksum(Buffer.concat([pseudoHeader(ends, PROTOCOL.udp, datagram), datagram]));
  // A sum of 0 is sent as its other form: 0 says that there is no checksum (RFC 768).
  datagram.writeUInt16BE(sum || 0xffff, 6);
  return ipFrame(ends, PROTOCOL.udp, HOP_LIMIT.udp, datagram);
}

/** A frame with an ICMPv6 message whose own checksum is still 0. */
export function icmpv6Frame(ends: Ends, message: Buffer): Buffer {
  const sum = checksum(Buffer.concat([pseudoHeader(ends, PROTOCOL.icmpv6, message), message]));
  const summed = Buffer.from(message);
  summed.writeUInt16BE(sum, 2);
  return ipFrame(ends, PROTOCOL.icmpv6, HOP_LIMIT.icmpv6, summed);
}

function ipFrame({ macFrom, macTo, from, to }: Ends, protocol: number, hops: number, data: Buffer): Buffer {
  if (from.length === 16) {
    const head = Buffer.concat([words16(0x6000, 0, data.length), Buffer.from([protocol, hops])]);
    return ethernet(macTo, macFrom, ETHERTYPE.ipv6, Buffer.concat([head, from, to, data]));
  }
  const head = Buffer.concat([
    words16(0x4500, 20 + data.length, 0, 0),
    Buffer.from([hops, protocol, 0, 0]),
    ...[from, to],
  ]);
  head.writeUInt16BE(checksum(head), 10);
  return ethernet(macTo, macFrom, ETHERTYPE.ipv4, Buffer.concat([head, data]));
}

/** RFC 768 and RFC 8200 section 8.1; the order of its fields does not matter to the sum. */
function pseudoHeader({ from, to }: Pick<Ends, "from" | "to">, protocol: number, data: Buffer): Buffer {
  return Buffer.concat([from, to, words16(protocol, data.length)]);
}

/** The Internet checksum (RFC 1071). */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/**
 * Reads an untagged frame of a guest, whatever it sent: undefined for all but whole UDP and ICMPv6 packets. Fragments
 * and IPv6 extension headers are not read, checksums are not verified: the frame came through memory, and a virtual
 * NIC may leave them out.
 */
export function readPacket(frame: Buffer): Packet | undefined {
  if (frame.length < ETHERNET_BYTES) return undefined;
  const macs = { macTo: frame.subarray(0, MAC_BYTES), macFrom: frame.subarray(MAC_BYTES, 2 * MAC_BYTES) };
  const rest = frame.subarray(ETHERNET_BYTES);
  const type = frame.readUInt16BE(12);
  const ip = type === ETHERTYPE.ipv4 ? readIpv4(rest) : type === ETHERTYPE.ipv6 ? readIpv6(rest) : undefined;
  if (ip === undefined) return undefined;
  const { protocol, from, to, data } = ip;
  const ends = { ...macs, from, to };
  if (protocol === PROTOCOL.icmpv6 && from.length === 16) return { kind: "icmpv6", ...ends, message: data };
  if (protocol !== PROTOCOL.udp || data.length < UDP_BYTES) return undefined;
  const [portFrom, portTo, length] = [data.readUInt16BE(0), data.readUInt16BE(2), data.readUInt16BE(4)];
  if (length < UDP_BYTES || length > data.length) return undefined;
  return { kind: "udp", ...ends, portFrom, portTo, payload: data.subarray(UDP_BYTES, length) };
}

interface IpPacket {
  readonly protocol: number;
  readonly from: Buffer;
  readonly to: Buffer;
  readonly data: Buffer;
}

/** Flag "more fragments" and the offset (RFC 791). */
const FRAGMENT = 0x3fff;

function readIpv4(bytes: Buffer): IpPacket | undefined {
  if (bytes.length < 20 || bytes.readUInt8(0) >> 4 !== 4) return undefined;
  const headBytes = (bytes.readUInt8(0) & 0x0f) * 4;
  const length = bytes.readUInt16BE(2);
  if (headBytes < 20 || length < headBytes || length > bytes.length) return undefined;
  if ((bytes.readUInt16BE(6) & FRAGMENT) !== 0) return undefined;
  const [from, to] = [bytes.subarray(12, 16), bytes.subarray(16, 20)];
  return { protocol: bytes.readUInt8(9), from, to, data: bytes.subarray(headBytes, length) };
}

function readIpv6(bytes: Buffer): IpPacket | undefined {
  if (bytes.length < IPV6_BYTES || bytes.readUInt8(0) >> 4 !== 6) return undefined;
  const length = IPV6_BYTES + bytes.readUInt16BE(4);
  if (length > bytes.length) return undefined;
  const [from, to] = [bytes.subarray(8, 24), bytes.subarray(24, 40)];
  return { protocol: bytes.readUInt8(6), from, to, data: bytes.subarray(IPV6_BYTES, length) };
}
