import { ipv6Bytes } from "../../addresses/host-address.ts";
import { words16 } from "../ethernet/frames.ts";
import type { GuestAddressing } from "./guest-addressing.ts";

const TYPE = { solicitation: 133, advertisement: 134 } as const;
const HOP_LIMIT = 64;
/** Addresses, and everything else, by DHCPv6 (RFC 4861 section 4.2). */
const MANAGED_AND_OTHER = 0xc0;
/** Addresses with this prefix are on the link; the guest makes none of its own (RFC 4861 section 4.6.2). */
const ON_LINK = 0x80;
const FOREVER = Buffer.alloc(4, 0xff);
/** Least MTU of IPv6 (RFC 8200 section 5). */
const MTU_MIN = 1_280;
const SOLICITATION_BYTES = 8;

/**
 * The ICMPv6 message that answers a guest's router solicitation (RFC 4861 section 6.2), without checksum: addresses come by
 * DHCPv6, whose addresses have no network of their own, so this says which are on the link, and the MTU. Its sender
 * is not a router, and lasts for ever: it is not repeated. Undefined for other messages.
 */
export function advertiseRouter(
  message: Buffer,
  { addresses, mtu }: Pick<GuestAddressing, "addresses" | "mtu">,
): Buffer | undefined {
  if (message.length < SOLICITATION_BYTES) return undefined;
  if (message.readUInt8(0) !== TYPE.solicitation || message.readUInt8(1) !== 0) return undefined;
  const networks = addresses.flatMap(({ address }) => {
    const [host = "", length = "128"] = address.split("/");
    return host.includes(":") ? [{ host: ipv6Bytes(host), length: Number(length) }] : [];
  });
  return Buffer.concat([
    // Its life as a default router is 0; the guest chooses the times of neighbour discovery.
    Buffer.from([TYPE.advertisement, 0, 0, 0, HOP_LIMIT, MANAGED_AND_OTHER, 0, 0]),
    Buffer.alloc(8),
    ...(mtu === undefined || mtu < MTU_MIN ? [] : [Buffer.from([5, 1]), words16(0, 0, mtu)]),
    ...networks.flatMap(({ host, length }) => [
      Buffer.from([3, 4, length, ON_LINK]),
      ...[FOREVER, FOREVER, Buffer.alloc(4)],
      masked(host, length),
    ]),
  ]);
}

function masked(address: Buffer, length: number): Buffer {
  return Buffer.from(
    address.map((byte, index) => byte & (0xff00 >> Math.max(0, Math.min(8, length - index * 8)))),
  );
}
