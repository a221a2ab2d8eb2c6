import { isIPv4 } from "node:net";
import { formatAddress } from "../../addresses/address.ts";
import { ipv4Bytes, ipv6Bytes } from "../../addresses/host-address.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import {
  dumpNeighbors,
  dumpUnnumbered,
  findRoute,
  getLinkLocal,
  getTable,
  setTable,
} from "../../protocols/vpp-api/routing-messages.ts";
import type { PortRequest } from "../port.ts";
import type { Order, VppRequests } from "./requests.ts";

/** An address as VPP's messages have it: IPv4 is in the first four bytes. */
export interface Address {
  /** 0 for IPv4, 1 for IPv6. */
  readonly af: number;
  readonly un: Buffer;
}

/** What a port without a bridge is to be; addresses are texts as {@link printAddress} gives them, each once. */
export interface Routing {
  readonly vrf: number;
  /** The guest's. */
  readonly mac: Buffer;
  /** The guest's addresses. */
  readonly hosts: readonly string[];
  /** Addresses that VPP answers for. */
  readonly gateways: readonly string[];
}

/** The routing that a request asks for; undefined where it asks for a bridge. */
export function routingOf({ settings: { routed }, owner }: PortRequest): Routing | undefined {
  if (routed === undefined) return undefined;
  const distinct = (addresses: readonly string[]) => [...new Set(addresses.map(canonical))];
  return {
    vrf: routed.vrf,
    mac: Buffer.from(owner.mac.replaceAll(":", ""), "hex"),
    hosts: distinct(routed.hosts.map(({ address }) => address)),
    gateways: distinct(routed.hosts.flatMap(({ gateway }) => gateway ?? [])),
  };
}

/** An address without prefix length, in VPP's form. */
export function addressOf(text: string): Address {
  const isV4 = isIPv4(text);
  const bytes = isV4 ? ipv4Bytes(text) : ipv6Bytes(text);
  return { af: isV4 ? 0 : 1, un: Buffer.concat([bytes, Buffer.alloc(16 - bytes.length)]) };
}

/** An address as text: always the same for the same address. */
export function printAddress({ af, un }: Address): string {
  if (af === 0) return [...un.subarray(0, 4)].join(".");
  return formatAddress({ family: "ipv6", value: BigInt(`0x${un.toString("hex")}`) });
}

/** The same address in the form of {@link printAddress}. */
export function canonical(text: string): string {
  return printAddress(addressOf(text));
}

/** An address as the prefix of a single host. */
export function hostPrefix(address: Address): Address & { readonly len: number } {
  return { ...address, len: address.af === 0 ? 32 : 128 };
}

/** Flag of ip_neighbor: made on request, and stays. */
export const STATIC = 1;

/** One way of a route. */
export type Path = Answered<typeof findRoute>["route"]["paths"][number];

/** An address in a table. */
export interface HostRoute {
  readonly host: string;
  readonly table: number;
}

/** What VPP has of a port's routing. */
export interface RoutedState {
  /** Its tables for IPv4 and IPv6. */
  readonly tables: readonly [number, number];
  /** Interface whose addresses it uses. */
  readonly gateway: number | undefined;
  /** Whether it speaks IPv6 on its link. */
  readonly hasIp6: boolean;
  /** MACs of the neighbours that were made on request, by address. */
  readonly neighbors: ReadonlyMap<string, Buffer>;
  /** Ways to each of the asked addresses; none where there is no route to that very address. */
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
  readonly addresses: ReadonlySet<string>;
}

/** Reads it for an interface; `asked` names the routes to read. */
export async function readRoutedState(
  vpp: VppRequests,
  sw_if_index: number,
  { hosts, vrf: table }: Pick<Routing, "hosts" | "vrf">,
): Promise<RoutedState> {
  const [tables, users, linkLocal, neighbors, paths] = await Promise.all([
    readTables(vpp, sw_if_index),
    vpp.dump(dumpUnnumbered, { sw_if_index }),
    vpp.request(getLinkLocal, { sw_if_index }),
    readStaticNeighbors(vpp, sw_if_index),
    Promise.all(hosts.map((host) => pathsTo(vpp, { host, table }))),
  ]);
  return {
    tables,
    gateway: users[0]?.ip_sw_if_index,
    hasIp6: linkLocal.retval >= 0,
    neighbors,
    routes: new Map(hosts.map((host, at) => [host, paths[at] ?? []])),
  };
}

/** An interface's tables for IPv4 and IPv6. */
export async function readTables(vpp: VppRequests, sw_if_index: number): Promise<RoutedState["tables"]> {
  const [v4, v6] = await Promise.all([
    vpp.request(getTable, { sw_if_index, is_ipv6: false }),
    vpp.request(getTable, { sw_if_index, is_ipv6: true }),
  ]);
  return [v4.vrf_id, v6.vrf_id];
}

/** Puts an interface into a table for both families. */
export function setTables(order: Order, sw_if_index: number, vrf_id: number): readonly Promise<unknown>[] {
  return [false, true].map((is_ipv6) => order(setTable, { sw_if_index, is_ipv6, vrf_id }));
}

/** The ways of the route to exactly this address. */
export async function pathsTo(vpp: VppRequests, { host, table }: HostRoute): Promise<readonly Path[]> {
  const ask = { table_id: table, exact: 1, prefix: hostPrefix(addressOf(host)) };
  const { retval, route } = await vpp.request(findRoute, ask);
  return retval < 0 ? [] : route.paths;
}

/** MACs of an interface's neighbours that were made on request, by address. */
export async function readStaticNeighbors(
  vpp: VppRequests,
  sw_if_index: number,
): Promise<RoutedState["neighbors"]> {
  const found = await Promise.all([0, 1].map((af) => vpp.dump(dumpNeighbors, { sw_if_index, af })));
  const made = found.flat().filter(({ neighbor }) => (neighbor.flags & STATIC) !== 0);
  return new Map(made.map(({ neighbor }) => [printAddress(neighbor), neighbor.mac_address]));
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
    if (gateway?.vrf !== asked.vrf || !gateway.addresses.has(address)) {
      found.push(`port ${name} does not answer for gateway ${address}`);
    }
  }
  if (gateway?.isUp === false) found.push(`the loopback with the gateways of port ${name} is not up`);
  if (state.hasIp6 !== wantsIp6(asked)) {
    found.push(`port ${name} ${state.hasIp6 ? "speaks" : "does not speak"} IPv6`);
  }
  for (const host of asked.hosts) {
    if (state.neighbors.get(host)?.equals(asked.mac) !== true) {
      found.push(`port ${name} lacks the guest's MAC for ${host}`);
    }
    const paths = state.routes.get(host) ?? [];
    if (paths.length !== 1 || paths[0]?.sw_if_index !== index) {
      found.push(`VRF ${asked.vrf} has no route to ${host} by port ${name}`);
    }
  }
  for (const host of state.neighbors.keys()) {
    if (!asked.hosts.includes(host)) found.push(`port ${name} is the way to ${host}, which was not asked`);
  }
  return found;
}

/** Whether the guest has an IPv6 address, which VPP must speak neighbour discovery for. */
export function wantsIp6({ hosts }: Pick<Routing, "hosts">): boolean {
  return !hosts.every(isIPv4);
}
