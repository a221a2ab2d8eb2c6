import { icmpv6Frame, linkLocalAddress, macBytes, readPacket, udpFrame } from "../ethernet/frames.ts";
import { answerDhcpv4 } from "./dhcpv4.ts";
import { answerDhcpv6 } from "./dhcpv6.ts";
import { type GuestAddressing, SERVER_MAC } from "./guest-addressing.ts";
import { advertiseRouter } from "./router-advertisement.ts";

/** UDP ports of client and server (RFC 2131 section 4.1, RFC 8415 section 7.2). */
export const PORTS = { ipv4: { client: 68, server: 67 }, ipv6: { client: 546, server: 547 } } as const;

const SERVER_LINK_LOCAL = linkLocalAddress(SERVER_MAC);
const ALL_NODES = Buffer.from("ff020000000000000000000000000001", "hex");

/**
 * The frame that answers a guest's request for addresses: DHCPv4, DHCPv6, or a router solicitation. Undefined for
 * all other frames, for those of another MAC, and of a family of which the guest has no address.
 * @param frame untagged, whatever the guest sent
 */
export function answerGuest(frame: Buffer, guest: GuestAddressing): Buffer | undefined {
  const packet = readPacket(frame);
  if (packet === undefined || !packet.macFrom.equals(macBytes(guest.mac))) return undefined;
  const has = familiesOf(guest);
  const macs = { macFrom: SERVER_MAC, macTo: Buffer.from(packet.macFrom) };
  if (packet.kind === "udp" && packet.from.length === 4) {
    const isAsked = packet.portTo === PORTS.ipv4.server && packet.portFrom === PORTS.ipv4.client;
    const answer = has.ipv4 && isAsked ? answerDhcpv4(packet.payload, guest) : undefined;
    if (answer === undefined) return undefined;
    const { from, to, message: payload } = answer;
    const ports = { portFrom: PORTS.ipv4.server, portTo: PORTS.ipv4.client };
    return udpFrame({ ...macs, from, to, ...ports, payload });
  }
  // What an IPv6 host sends before it has an address, and only that: from its link, or from nowhere.
  const isFromLink = packet.from.readUInt16BE(0) >> 6 === 0xfe80 >> 6;
  if (!has.ipv6 || packet.from.length !== 16) return undefined;
  if (packet.kind === "udp") {
    const isAsked = packet.portTo === PORTS.ipv6.server && packet.portFrom === PORTS.ipv6.client;
    const payload = isFromLink && isAsked ? answerDhcpv6(packet.payload, guest) : undefined;
    if (payload === undefined) return undefined;
    const ports = { portFrom: PORTS.ipv6.server, portTo: PORTS.ipv6.client };
    return udpFrame({ ...macs, from: SERVER_LINK_LOCAL, to: packet.from, ...ports, payload });
  }
  const message = advertiseRouter(packet.message, guest);
  if (message === undefined) return undefined;
  return icmpv6Frame({ ...macs, from: SERVER_LINK_LOCAL, to: isFromLink ? packet.from : ALL_NODES }, message);
}

/** The families that a guest has addresses of. */
export function familiesOf({ addresses }: Pick<GuestAddressing, "addresses">): {
  readonly ipv4: boolean;
  readonly ipv6: boolean;
} {
  const isV6 = addresses.map(({ address }) => address.includes(":"));
  return { ipv4: isV6.includes(false), ipv6: isV6.includes(true) };
}
