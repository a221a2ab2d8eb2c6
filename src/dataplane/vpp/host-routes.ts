import type { Asked } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { addRoute, findRoute } from "../../protocols/vpp-api/routing-messages.ts";
import type { Path } from "./routed-state.ts";
import { type Address, addressKey, hostPrefix } from "./routing.ts";

/** fib_path_type of a path that goes out by an interface. */
export const NORMAL = 0;
const NO_LABELS = Array.from({ length: 16 }, () => ({ is_uniform: 0, label: 0, ttl: 0, exp: 0 }));

/** An address in a table. */
export interface HostRoute {
  readonly host: Address;
  readonly table: number;
}

/** Addresses in the tables of their families, IPv4's and IPv6's. */
export function inTables(hosts: Iterable<Address>, tables: readonly [number, number]): readonly HostRoute[] {
  return [...hosts].map((host) => ({ host, table: tables[host.af === 0 ? 0 : 1] }));
}

/** Whether one of the routes is to the same address in the same table. */
export function isAmong(routes: readonly HostRoute[], { host, table }: HostRoute): boolean {
  const key = addressKey(host);
  return routes.some((one) => one.table === table && addressKey(one.host) === key);
}

/** Those of the routes that there are and that go out by an interface. */
export async function routesBy(
  connection: VppConnection,
  index: number,
  candidates: readonly HostRoute[],
  signal: AbortSignal,
): Promise<readonly HostRoute[]> {
  const found = await Promise.all(
    candidates.map(async ({ host, table }) => {
      const ask = { table_id: table, exact: 1, prefix: hostPrefix(host) };
      const { retval, route } = await connection.request(findRoute, ask, signal);
      return retval >= 0 && goesBy(route.paths, index);
    }),
  );
  return candidates.filter((_, at) => found[at]);
}

/** Whether one of the ways is by that interface. */
export function goesBy(paths: readonly Path[], index: number): boolean {
  return paths.some(({ type, sw_if_index }) => type === NORMAL && sw_if_index === index);
}

/**
 * Takes a way by an interface off a route. Only one that is there: where another port of ours alone has the route, VPP
 * aborts (an assertion in fib_entry_cover_track, seen with a debug build).
 */
export async function removeRoute(
  connection: VppConnection,
  index: number,
  { host, table }: HostRoute,
  signal: AbortSignal,
): Promise<void> {
  const route = routeTo({ host, table }, index);
  await connection.request(addRoute, { is_add: false, is_multipath: true, route }, signal);
}

/** Without a next hop the host is on the link itself, and so its own neighbour. */
export function routeTo({ host, table }: HostRoute, sw_if_index: number): Asked<typeof addRoute>["route"] {
  const nh = { address: Buffer.alloc(16), via_label: 0, obj_id: 0, classify_table_index: 0 };
  const path = { sw_if_index, table_id: 0, rpf_id: 0, weight: 1, preference: 0, type: NORMAL, flags: 0 };
  return {
    table_id: table,
    stats_index: 0,
    prefix: hostPrefix({ af: host.af, un: host.un }),
    paths: [{ ...path, proto: host.af, nh, n_labels: 0, label_stack: NO_LABELS }],
  };
}
