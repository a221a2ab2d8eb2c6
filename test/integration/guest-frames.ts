import { isIPv4 } from "node:net";

/** Addresses of a frame's link layer, and the tags before its EtherType, each with its own type. */
export interface Link {
  readonly from: string;
  readonly to?: string;
  readonly tags?: readonly (readonly [type: number, vlan: number])[];
}

const BROADCAST = "ff:ff:ff:ff:ff:ff";
const number16 = (value: number) => Buffer.from([value >> 8, value & 0xff]);
const mac = (text: string) => Buffer.from(text.replaceAll(":", ""), "hex");

/** An Ethernet frame, padded to the 60 bytes that a wire has at least. */
export function frame(link: Link, ethertype: number, payload: Buffer): Buffer {
  const tags = (link.tags ?? []).flatMap(([type, vlan]) => [number16(type), number16(vlan)]);
  const head = [mac(link.to ?? BROADCAST), mac(link.from), ...tags, number16(ethertype)];
  const bytes = Buffer.concat([...head, payload]);
  return Buffer.concat([bytes, Buffer.alloc(Math.max(0, 60 - bytes.length))]);
}

/** ARP, or RARP where `reverse` says so. */
export function arp(
  link: Link,
  claim: {
    readonly op: number;
    readonly sha: string;
    readonly spa?: string;
    readonly tha?: string;
    readonly tpa?: string;
    readonly reverse?: boolean;
  },
): Buffer {
  const payload = Buffer.concat([
    Buffer.from([0, 1, 8, 0, 6, 4]),
    number16(claim.op),
    mac(claim.sha),
    address(claim.spa ?? "0.0.0.0"),
    mac(claim.tha ?? "00:00:00:00:00:00"),
    address(claim.tpa ?? "0.0.0.0"),
  ]);
  return frame(link, claim.reverse === true ? 0x8035 : 0x0806, payload);
}

/** IPv4 or IPv6, by the addresses, with a payload of the given protocol. */
function ip(
  link: Link,
  packet: { readonly from: string; readonly to: string; readonly protocol: number; readonly payload: Buffer },
): Buffer {
  const { protocol, payload } = packet;
  const ends = Buffer.concat([address(packet.from), address(packet.to)]);
  if (isIPv4(packet.from)) {
    const head = Buffer.from([0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0]);
    head.writeUInt16BE(20 + payload.length, 2);
    return frame(link, 0x0800, Buffer.concat([head, ends, payload]));
  }
  const head = Buffer.from([0x60, 0, 0, 0, 0, 0, protocol, 255]);
  head.writeUInt16BE(payload.length, 4);
  return frame(link, 0x86dd, Buffer.concat([head, ends, payload]));
}

/** UDP with eight bytes of data. */
export function udp(link: Link, from: readonly [string, number], to: readonly [string, number]): Buffer {
  const head = [number16(from[1]), number16(to[1]), number16(16), number16(0)];
  const payload = Buffer.concat([...head, Buffer.alloc(8)]);
  return ip(link, { from: from[0], to: to[0], protocol: 17, payload });
}

/** ICMPv6 of any type; neighbour discovery has a target and options, each of a type and a MAC. */
export function icmp6(
  link: Link,
  message: {
    readonly from: string;
    readonly to: string;
    readonly type: number;
    readonly target?: string;
    readonly options?: readonly (readonly [type: number, mac: string])[];
  },
): Buffer {
  const options = (message.options ?? []).map(([type, option]) =>
    Buffer.concat([Buffer.from([type, 1]), mac(option)]),
  );
  const target = message.target === undefined ? Buffer.alloc(0) : address(message.target);
  const payload = Buffer.concat([Buffer.from([message.type, 0, 0, 0, 0, 0, 0, 0]), target, ...options]);
  return ip(link, { from: message.from, to: message.to, protocol: 58, payload });
}

function address(text: string): Buffer {
  if (isIPv4(text)) return Buffer.from(text.split(".").map(Number));
  const [head = [], tail = []] = text.split("::").map((part) => part.split(":").filter(Boolean));
  const words = [...head, ...new Array<string>(8 - head.length - tail.length).fill("0"), ...tail];
  return Buffer.from(words.map((word) => word.padStart(4, "0")).join(""), "hex");
}
