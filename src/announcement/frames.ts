import { randomBytes } from "node:crypto";
import { isIPv4 } from "node:net";
import { ipv4Bytes, ipv6Bytes } from "../addresses/host-address.ts";
import {
  BROADCAST_MAC,
  ETHERTYPE,
  ethernet,
  icmpv6Frame,
  macBytes,
  words16,
} from "../protocols/ethernet/frames.ts";
import type { PortRecord } from "../records/port-record.ts";

/** Ethernet address of ff02::1 (RFC 2464 section 7). */
const ALL_NODES_MAC = Buffer.from("333300000001", "hex");
const ALL_NODES = Buffer.from("ff020000000000000000000000000001", "hex");
/** A frame for each tag, several times: a trunk of more VLANs is announced untagged only. */
const MAX_TAGS = 256;

/** The guest behind a port, as the network is to know it. */
export interface GuestIdentity {
  /** Six bytes with colons. */
  readonly mac: string;
  /** Without prefix length. */
  readonly addresses: readonly string[];
  /** VLANs that the guest tags its frames with, beside those that it sends untagged. */
  readonly vlans: readonly number[];
}

/** The guest of an attachment. Addresses that it gave itself are not known to us. */
export function guestIdentity({
  mac,
  lease,
  settings: { vlan },
}: Pick<PortRecord, "mac" | "lease" | "settings">): GuestIdentity {
  const addresses = (lease?.given?.ips ?? []).map(({ address }) => address.replace(/\/.*$/, ""));
  const carried = vlan?.mode === "dot1q-tunnel" ? vlan.customerVlans : (vlan?.trunks ?? []);
  // What is in the port's own VLAN has no tag; an access port has no other.
  const own = vlan?.mode === "dot1q-tunnel" ? 0 : vlan?.tag;
  const vlans = vlan?.mode === "access" ? [] : carried.filter((id) => id !== 0 && id !== own);
  return { mac, addresses, vlans: vlans.length > MAX_TAGS ? [] : vlans };
}

/**
 * Frames that show a network where a MAC is now, and which addresses it has; the addresses untagged, because those of
 * tagged interfaces are not known. The MAC goes to all, as the network may expect it, and once more to a group that no
 * frame has gone to lately: a switch that still caches how it forwarded the broadcasts, from when the MAC was there
 * before, would learn of it late (Open vSwitch up to half a second, `max-revalidator`).
 * @param group the group, from {@link unusedGroup}
 */
export function announcementFrames({ mac, addresses, vlans }: GuestIdentity, group: Uint8Array): Buffer[] {
  const requests = [rarpRequest(mac), rarpRequest(mac, group)];
  return [
    ...requests,
    ...vlans.flatMap((vlan) => requests.map((request) => tagged(request, vlan))),
    ...addresses.map((address) =>
      isIPv4(address) ? gratuitousArp(mac, address) : neighbourAdvertisement(mac, address),
    ),
  ];
}

/**
 * A random group address of 2 ** 40, which no switch has seen before: the first byte says group and locally administered
 * (IEEE 802 section 8.2).
 */
export function unusedGroup(): Buffer {
  return Buffer.concat([Buffer.from([0x03]), randomBytes(5)]);
}

/** A host asking for its own address, which no server answers any more: bridges learn the MAC (RFC 903). */
export function rarpRequest(mac: string, to: Uint8Array = BROADCAST_MAC): Buffer {
  const sender = macBytes(mac);
  const none = Buffer.alloc(4);
  return ethernet(to, sender, ETHERTYPE.rarp, arpBody(3, [sender, none, sender, none]));
}

/** An announcement as RFC 5227 section 3 has it: a request for the own address. Neighbours update what they know. */
export function gratuitousArp(mac: string, address: string): Buffer {
  const sender = macBytes(mac);
  const own = ipv4Bytes(address);
  return ethernet(BROADCAST_MAC, sender, ETHERTYPE.arp, arpBody(1, [sender, own, Buffer.alloc(6), own]));
}

/**
 * An unsolicited neighbour advertisement (RFC 4861 section 7.2.6) that overrides what neighbours know. It calls the
 * guest a router whether it is one or not: a host that hears otherwise of its default router drops it
 * (section 7.2.5), and one that hears it of a host does nothing.
 */
export function neighbourAdvertisement(mac: string, address: string): Buffer {
  const sender = macBytes(mac);
  const own = ipv6Bytes(address);
  const message = Buffer.concat([
    Buffer.from([136, 0, 0, 0, 0xa0, 0, 0, 0]), // router and override
    own,
    Buffer.from([2, 1]), // target's link-layer address, in units of eight bytes
    sender,
  ]);
  return icmpv6Frame({ macFrom: sender, macTo: ALL_NODES_MAC, from: own, to: ALL_NODES }, message);
}

/** The frame with a tag of IEEE 802.1Q. */
function tagged(frame: Buffer, vlan: number): Buffer {
  return Buffer.concat([frame.subarray(0, 12), words16(ETHERTYPE.vlan, vlan), frame.subarray(12)]);
}

function arpBody(operation: number, addresses: readonly Buffer[]): Buffer {
  return Buffer.concat([words16(1, 0x0800, 0x0604, operation), ...addresses]);
}
