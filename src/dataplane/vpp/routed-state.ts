import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  dumpNeighbors,
  dumpUnnumbered,
  findRoute,
  getLinkLocal,
  getTable,
} from "../../protocols/vpp-api/routing-messages.ts";
import type { Gateway } from "./gateways.ts";
import { type Address, addressKey, hostPrefix, printAddress, type Routing } from "./routing.ts";

/** Flag of ip_neighbor: made by hand, and stays. */
export const STATIC = 1;

/** One way of a route, as VPP tells it. */
export type Path = Answered<typeof findRoute>["route"]["paths"][number];

/** What VPP has of a port's routing. */
export interface RoutedState {
  /** Its tables for IPv4 and IPv6. */
  readonly tables: readonly [number, number];
  /** Interface whose addresses it uses. */
  readonly gateway: number | undefined;
  /** Whether it speaks IPv6 on its link. */
  readonly hasIp6: boolean;
  /** Neighbours that were made by hand, by {@link addressKey}. */
  readonly neighbors: ReadonlyMap<string, Address & { readonly mac_address: Buffer }>;
  /** Ways to each of the asked addresses, where there is a route to that very address. */
  readonly routes: ReadonlyMap<string, readonly Path[]>;
}

/** Reads it for an interface; `asked` names the routes to look at. */
export async function readRoutedState(
  connection: VppConnection,
  sw_if_index: number,
  asked: Pick<Routing, "hosts" | "vrf">,
  signal: AbortSignal,
): Promise<RoutedState> {
  const [v4, v6, users, linkLocal, neighbors, routes] = await Promise.all([
    connection.request(getTable, { sw_if_index, is_ipv6: false }, signal),
    connection.request(getTable, { sw_if_index, is_ipv6: true }, signal),
    connection.dump(dumpUnnumbered, { sw_if_index }, signal),
    connection.request(getLinkLocal, { sw_if_index }, signal),
    readStaticNeighbors(connection, sw_if_index, signal),
    Promise.all(
      asked.hosts.map(async (host) => {
        const ask = { table_id: asked.vrf, exact: 1, prefix: hostPrefix(host) };
        const { retval, route } = await connection.request(findRoute, ask, signal);
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

/** Neighbours of an interface that were made by hand. */
export async function readStaticNeighbors(
  connection: VppConnection,
  sw_if_index: number,
  signal: AbortSignal,
): Promise<RoutedState["neighbors"]> {
  const found = await Promise.all(
    [0, 1].map((af) => connection.dump(dumpNeighbors, { sw_if_index, af }, signal)),
  );
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
      found.push(`port ${name} is the way to ${printAddress(neighbor)}, which nobody asked`);
  }
  return found;
}

/** Whether the guest has an IPv6 address, which VPP must speak neighbour discovery for. */
export function wantsIp6({ hosts }: Pick<Routing, "hosts">): boolean {
  return hosts.some(({ af }) => af === 1);
}
