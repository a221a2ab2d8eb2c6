import { isIPv4 } from "node:net";
import { ipv4Bytes, ipv6Bytes } from "../../names/ip-address.ts";
import type { PortRequest } from "../port.ts";

/** An address as VPP's messages have it: IPv4 takes the first four bytes. */
export interface Address {
  /** 0 for IPv4, 1 for IPv6. */
  readonly af: number;
  readonly un: Buffer;
}

/** What a port without a bridge is to be. */
export interface Routing {
  readonly vrf: number;
  /** The guest's. */
  readonly mac: Buffer;
  /** The guest's addresses. */
  readonly hosts: readonly Address[];
  /** Addresses that VPP answers for, each once. */
  readonly gateways: readonly Address[];
}

/** The routing that a request asks for; undefined where it asks for a bridge. */
export function routingOf({ settings: { routed }, owner }: PortRequest): Routing | undefined {
  if (routed === undefined) return undefined;
  const gateways = routed.hosts.flatMap(({ gateway }) => (gateway === undefined ? [] : addressOf(gateway)));
  return {
    vrf: routed.vrf,
    mac: Buffer.from(owner.mac.replaceAll(":", ""), "hex"),
    hosts: distinct(routed.hosts.map(({ address }) => addressOf(address))),
    gateways: distinct(gateways),
  };
}

/** An address without prefix length, in VPP's form. */
export function addressOf(text: string): Address {
  const isV4 = isIPv4(text);
  const bytes = isV4 ? ipv4Bytes(text) : ipv6Bytes(text);
  return { af: isV4 ? 0 : 1, un: Buffer.concat([bytes, Buffer.alloc(16 - bytes.length)]) };
}

/** The same for the same address. */
export function addressKey({ af, un }: Address): string {
  return `${af}:${un.toString("hex", 0, af === 0 ? 4 : 16)}`;
}

/** An address for people. */
export function printAddress({ af, un }: Address): string {
  if (af === 0) return [...un.subarray(0, 4)].join(".");
  const words = Array.from({ length: 8 }, (_, at) => un.readUInt16BE(at * 2).toString(16)).join(":");
  return words.replace(/\b0(:0)+\b/, ":").replace(/:{3,}/, "::");
}

/** An address as the prefix of a single host. */
export function hostPrefix(address: Address): Address & { readonly len: number } {
  return { ...address, len: address.af === 0 ? 32 : 128 };
}

function distinct(addresses: readonly Address[]): readonly Address[] {
  return [...new Map(addresses.map((address) => [addressKey(address), address])).values()];
}
