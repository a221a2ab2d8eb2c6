import { isIPv4 } from "node:net";
import { ipv4Bytes, ipv6Bytes } from "../../names/ip-address.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import {
  dumpNeighbors,
  dumpUnnumbered,
  findRoute,
  getLinkLocal,
  getTable,
} from "../../protocols/vpp-api/routing-messages.ts";
import type { PortRequest } from "../port.ts";
import type { VppRequests } from "./requests.ts";

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

/** Flag of ip_neighbor: made on request, and stays. */
export const STATIC = 1;

/** One way of a route. */
export type Path = Answered<typeof findRoute>["route"]["paths"][number];

/** What VPP has of a port's routing. */
export interface RoutedState {
  /** Its tables for IPv4 and IPv6. */
  readonly tables: readonly [number, number];
  /** Interface whose addresses it uses. */
  readonly gateway: number | undefined;
  /** Whether it speaks IPv6 on its link. */
  readonly hasIp6: boolean;
  /** Neighbours that were made on request, by {@link addressKey}. */
  readonly neighbors: ReadonlyMap<string, Address & { readonly mac_address: Buffer }>;
  /** Ways to each of the asked addresses, where there is a route to that very address. */
  readonly routes: ReadonlyMap<string, readonly Path[]>;
}

/**
 * A loopback that holds the gateways of routed ports; they are without an address of their own (unnumbered) and use
 * its. VPP has an address once in a table, so that all ports of a network share one.
 */
export interface Gateway {
  readonly index: number;
  readonly vrf: number;
  readonly isUp: boolean;
  /** By {@link addressKey}. */
  readonly addresses: ReadonlySet<string>;
}

/** Reads it for an interface; `asked` names the routes to look at. */
export async function readRoutedState(
  vpp: VppRequests,
  sw_if_index: number,
  asked: Pick<Routing, "hosts" | "vrf">,
): Promise<RoutedState> {
  const [v4, v6, users, linkLocal, neighbors, routes] = await Promise.all([
    vpp.request(getTable, { sw_if_index, is_ipv6: false }),
    vpp.request(getTable, { sw_if_index, is_ipv6: true }),
    vpp.dump(dumpUnnumbered, { sw_if_index }),
    vpp.request(getLinkLocal, { sw_if_index }),
    readStaticNeighbors(vpp, sw_if_index),
    Promise.all(
      asked.hosts.map(async (host) => {
        const ask = { table_id: asked.vrf, exact: 1, prefix: hostPrefix(host) };
        const { retval, route } = await vpp.request(findRoute, ask);
        return [addressKey(host), retval < 0 ? [] : route.paths] as const;
      }),
    ),
  ]);
  return {
    tables: [v4.vrf_id, v6.vrf_id],
    gateway: users[0]?.ip_sw_if_index,
    hasIp6: linkLocal.retval >= 0,
    neighbors,
    routes: new Map(routes.filter(([, paths]) => paths.length > 0)),
  };
}

/** Neighbours of an interface that were made on request. */
export async function readStaticNeighbors(
  vpp: VppRequests,
  sw_if_index: number,
): Promise<RoutedState["neighbors"]> {
  const found = await Promise.all([0, 1].map((af) => vpp.dump(dumpNeighbors, { sw_if_index, af })));
  const made = found.flat().filter(({ neighbor }) => (neighbor.flags & STATIC) !== 0);
  return new Map(made.map(({ neighbor }) => [addressKey(neighbor), neighbor]));
}

/** Pure: what of a port's routing is not as asked, one sentence each. */
export function routingDifferences(
  name: string,
  index: number,
  state: RoutedState,
  gateways: readonly Gateway[],
  asked: Routing,
): string[] {
  const found: string[] = [];
  for (const [at, family] of (["IPv4", "IPv6"] as const).entries()) {
    const is = state.tables[at];
    if (is !== asked.vrf) found.push(`port ${name} is in VRF ${is} for ${family}, asked was ${asked.vrf}`);
  }
  const gateway = gateways.find((one) => one.index === state.gateway);
  for (const address of asked.gateways) {
    if (gateway?.vrf !== asked.vrf || !gateway.addresses.has(addressKey(address))) {
      found.push(`port ${name} does not answer for gateway ${printAddress(address)}`);
    }
  }
  if (gateway?.isUp === false) found.push(`the loopback with the gateways of port ${name} is not up`);
  if (state.hasIp6 !== wantsIp6(asked)) {
    found.push(`port ${name} ${state.hasIp6 ? "speaks" : "does not speak"} IPv6`);
  }
  for (const host of asked.hosts) {
    const text = printAddress(host);
    const neighbor = state.neighbors.get(addressKey(host));
    if (neighbor?.mac_address.equals(asked.mac) !== true) {
      found.push(`port ${name} lacks the guest's MAC for ${text}`);
    }
    const paths = state.routes.get(addressKey(host)) ?? [];
    if (paths.length !== 1 || paths[0]?.sw_if_index !== index) {
      found.push(`VRF ${asked.vrf} has no route to ${text} by port ${name}`);
    }
  }
  const wanted = new Set(asked.hosts.map(addressKey));
  for (const [key, neighbor] of state.neighbors) {
    if (!wanted.has(key))
      found.push(`port ${name} is the way to ${printAddress(neighbor)}, which was not asked`);
  }
  return found;
}

/** Whether the guest has an IPv6 address, which VPP must speak neighbour discovery for. */
export function wantsIp6({ hosts }: Pick<Routing, "hosts">): boolean {
  return hosts.some(({ af }) => af === 1);
}
