import { isIPv4 } from "node:net";
import { Failure } from "../../failure/failure.ts";
import type { Asked } from "../../protocols/vpp-api/call.ts";
import { addRoute } from "../../protocols/vpp-api/routing-messages.ts";
import { isOfNode, parseMark } from "./mark.ts";
import type { VppRequests, VppWork } from "./requests.ts";
import {
  addressOf,
  type HostRoute,
  hostPrefix,
  type Path,
  pathsTo,
  type RoutedState,
  type Routing,
  readStaticNeighbors,
} from "./routed-state.ts";

/** fib_path_type of a path that goes out by an interface. */
const NORMAL = 0;
const NO_LABELS = Array.from({ length: 16 }, () => ({ is_uniform: 0, label: 0, ttl: 0, exp: 0 }));

/** A port of ours, by what VPP knows it by. */
export interface RoutedPort {
  readonly name: string;
  readonly index: number;
}

/** Addresses in the tables of their families, IPv4's and IPv6's. */
export function inTables(hosts: Iterable<string>, [v4, v6]: RoutedState["tables"]): readonly HostRoute[] {
  return [...hosts].map((host) => ({ host, table: isIPv4(host) ? v4 : v6 }));
}

/** Whether one of the routes is to the same address in the same table. */
export function isAmong(routes: readonly HostRoute[], { host, table }: HostRoute): boolean {
  return routes.some((one) => one.table === table && one.host === host);
}

/** Those of the routes that there are and that go out by an interface. */
export async function routesBy(
  vpp: VppRequests,
  index: number,
  candidates: readonly HostRoute[],
): Promise<readonly HostRoute[]> {
  const paths = await Promise.all(candidates.map((route) => pathsTo(vpp, route)));
  return candidates.filter((_, at) => goesBy(paths[at] ?? [], index));
}

/** Whether one of the ways is by that interface. */
export function goesBy(paths: readonly Path[], index: number): boolean {
  return paths.some(({ type, sw_if_index }) => type === NORMAL && sw_if_index === index);
}

/**
 * Removes a way by an interface from a route. Only one that is there: where another port of ours alone has the route,
 * VPP aborts (an assertion in fib_entry_cover_track, seen with a debug build).
 */
export async function removeRoute(vpp: VppRequests, index: number, host: HostRoute): Promise<void> {
  await vpp.request(addRoute, { is_add: false, is_multipath: true, route: routeTo(host, index) });
}

/** Without a next hop the host is on the link itself, and so its own neighbour. */
export function routeTo({ host, table }: HostRoute, sw_if_index: number): Asked<typeof addRoute>["route"] {
  const nh = { address: Buffer.alloc(16), via_label: 0, obj_id: 0, classify_table_index: 0 };
  const path = { sw_if_index, table_id: 0, rpf_id: 0, weight: 1, preference: 0, type: NORMAL, flags: 0 };
  const prefix = hostPrefix(addressOf(host));
  const paths = [{ ...path, proto: prefix.af, nh, n_labels: 0, label_stack: NO_LABELS }];
  return { table_id: table, stats_index: 0, prefix, paths };
}

/** @throws Failure port-conflict where one of the guest's addresses is routed to something else */
export async function refuseTaken(
  work: VppWork,
  port: RoutedPort,
  { hosts, vrf }: Pick<Routing, "hosts" | "vrf">,
  { routes }: Pick<RoutedState, "routes">,
): Promise<void> {
  for (const host of hosts) {
    for (const path of routes.get(host) ?? []) {
      const holder = await holderOf(work, port, { host, table: vrf }, path);
      if (holder === undefined) continue;
      throw new Failure({
        code: "port-conflict",
        what: `address ${host} of VRF ${vrf} is routed to ${holder.name} already`,
        where: `port ${port.name}`,
        fix: `let nothing else in VRF ${vrf} have the guest's address; ${holder.cure}`,
      });
    }
  }
}

/** What has an address, and how to free it; undefined where it is this port, or a leftover of an interface. */
async function holderOf(
  work: VppWork,
  port: RoutedPort,
  { host, table }: HostRoute,
  { type, sw_if_index }: Path,
): Promise<{ readonly name: string; readonly cure: string } | undefined> {
  const [show, prefix] = isIPv4(host) ? ["ip", `${host}/32`] : ["ip6", `${host}/128`];
  const look = `vppctl show ${show} fib table ${table} ${prefix}`;
  if (type !== NORMAL) return { name: "VPP itself", cure: `${look} says by what VPP has it` };
  if (sw_if_index === port.index) return undefined;
  const row = await work.interface(sw_if_index);
  if (row === undefined) return undefined;
  const mark = parseMark(row.tag);
  if (mark === undefined || !isOfNode(mark, work.context.node)) {
    const remove = `vppctl ip route del ${prefix} table ${table} via ${row.interface_name}`;
    // VPP keeps apart what its command line and its API have made: neither can remove the other's.
    const cure = `if nothing needs the route, where ${look} says CLI: ${remove}; where it says API, by the client that made it, or with a restart of VPP`;
    return { name: `interface ${row.interface_name}`, cure };
  }
  // The number may be of a port that is newer than the route.
  const neighbors = await readStaticNeighbors(work, sw_if_index);
  if (!neighbors.has(host)) return undefined;
  const remove = `vppctl delete vhost-user ${row.interface_name}`;
  return { name: `port ${mark.name}`, cure: `if the pod of port ${mark.name} is gone: ${remove}` };
}
