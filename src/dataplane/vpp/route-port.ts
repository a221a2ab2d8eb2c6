import { isIPv4 } from "node:net";
import { Failure } from "../../failure/failure.ts";
import type { Asked } from "../../protocols/vpp-api/call.ts";
import { addNeighbor, addRoute, enableIp6, setUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import { ensureGateway, lockGateways, readGateways, removeUnusedGateways } from "./gateways.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { lackingMessage } from "./offers.ts";
import type { Order, VppRequests, VppWork } from "./requests.ts";
import {
  addressOf,
  type Gateway,
  type HostRoute,
  hostPrefix,
  type Path,
  pathsTo,
  type RoutedState,
  type Routing,
  readRoutedState,
  readStaticNeighbors,
  readTables,
  routingDifferences,
  STATIC,
  setTables,
  wantsIp6,
} from "./routed-state.ts";
import { readPortInterface } from "./view.ts";

/** Flag of ip_neighbor: no route of its own; VPP gives it none where no network of the interface's covers it. */
const WITHOUT_ROUTE = 2;
/** fib_path_type of a path that goes out by an interface. */
const NORMAL = 0;
const NO_LABELS = Array.from({ length: 16 }, () => ({ is_uniform: 0, label: 0, ttl: 0, exp: 0 }));

/** What became of a port's routing; `gone` where the interface is that port no longer, and nothing was done. */
type Outcome = "gone" | "unchanged" | "changed";

/** A port of ours, by what VPP knows it by. */
export interface RoutedPort {
  readonly name: string;
  readonly index: number;
}

/**
 * Makes a port's routing as asked where it differs: its table, the loopback whose addresses it uses, and for each
 * address of the guest a route to it by this interface and its MAC.
 * @throws Failure port-conflict where an address is routed to something else, dataplane-misconfigured
 */
export async function routePort(
  work: VppWork,
  port: RoutedPort,
  routing: Routing,
  { isNew = false }: { readonly isNew?: boolean } = {},
): Promise<Outcome> {
  const read = () => readRouting(work, port, routing);
  // A route that outlived an interface of this number looks as if it were right, and leads nowhere.
  if (!isNew && (await read()).differences.length === 0) return "unchanged";
  return lockGateways(work, `port ${port.name}`, async () => {
    const [row, { state, gateways }] = await Promise.all([
      readPortInterface(work, port.name, port.index),
      read(),
    ]);
    if (row === undefined) return "gone";
    await refuseTaken(work, port, routing, state);
    const gateway = await ensureGateway(work, gateways, routing, port.name);
    await apply(work, port, routing, state, gateway);
    if (state.gateway !== undefined) await removeUnusedGateways(work);
    return "changed";
  });
}

/** What VPP has of a port's routing, and what of it is not as asked, one sentence each. */
export async function readRouting(
  work: VppWork,
  { name, index }: RoutedPort,
  asked: Routing,
): Promise<{
  readonly state: RoutedState;
  readonly gateways: readonly Gateway[];
  differences: readonly string[];
}> {
  const [state, gateways] = await Promise.all([
    readRoutedState(work, index, asked),
    readGateways(work, work.context.node),
  ]);
  return { state, gateways, differences: routingDifferences(name, index, state, gateways, asked) };
}

/**
 * Removes the routes to a port's guest and its neighbours, also of one that was routed by half; all else goes with the
 * interface. Each route is known by the static neighbour that was made before it: a bridge's port has none.
 * @param asked routing that may not have come as far as its neighbours or its table
 * @returns whether there was something
 */
export async function unroutePort(
  vpp: VppRequests,
  index: number,
  asked: Pick<Routing, "hosts" | "vrf"> | undefined,
): Promise<boolean> {
  if (lackingMessage(vpp.connection, "routed ports") !== undefined) return false;
  const [tables, neighbors] = await Promise.all([readTables(vpp, index), readStaticNeighbors(vpp, index)]);
  const { hosts, vrf } = asked ?? { hosts: [], vrf: 0 };
  const known = inTables(neighbors.keys(), tables);
  const candidates = [...known, ...inTables(hosts, [vrf, vrf]).filter((one) => !isAmong(known, one))];
  const routes = await routesBy(vpp, index, candidates);
  await Promise.all([
    ...routes.map((route) => removeRoute(vpp, index, route)),
    // Before 26.02 they outlive their interface, and VPP crashes over them once its number is used again.
    ...[...neighbors].map(([host, mac]) => removeNeighbor(vpp, index, host, mac)),
  ]);
  return candidates.length > 0;
}

/** Makes a routed port one that can be a bridge's again; its guest stays connected. */
export async function clearRouting(work: VppWork, port: RoutedPort): Promise<Outcome> {
  const { name, index } = port;
  return lockGateways(work, `port ${name}`, async () => {
    if ((await readPortInterface(work, name, index)) === undefined) return "gone";
    const state = await readRoutedState(work, index, { hosts: [], vrf: 0 });
    const old = await routesBy(work, index, inTables(state.neighbors.keys(), state.tables));
    const order = work.orders(`port ${name}`);
    await Promise.all([
      ...undo(work, index, state, old, order),
      ...(state.hasIp6 ? [order(enableIp6, { sw_if_index: index, enable: false })] : []),
      ...setTables(order, index, 0),
    ]);
    await removeUnusedGateways(work);
    return "changed";
  });
}

/** Undoes what there is and makes it again, in one write: VPP does not move an interface that uses another's addresses. */
async function apply(
  vpp: VppRequests,
  { name, index }: RoutedPort,
  routing: Routing,
  state: RoutedState,
  gateway: number,
): Promise<void> {
  const order = vpp.orders(`port ${name}`);
  const { vrf, hosts, mac } = routing;
  const wanted = wantsIp6(routing);
  const known = inTables(state.neighbors.keys(), state.tables);
  const asked = inTables(hosts, [vrf, vrf]);
  // VPP does not check a route that outlived an interface of this number when it is added again.
  const outlived = asked.filter(
    (one) => !isAmong(known, one) && goesBy(state.routes.get(one.host) ?? [], index),
  );
  const old = [...(await routesBy(vpp, index, known)), ...outlived];
  await Promise.all([
    ...undo(vpp, index, state, old, order),
    ...setTables(order, index, vrf),
    order(setUnnumbered, { sw_if_index: gateway, unnumbered_sw_if_index: index, is_add: true }),
    ...(state.hasIp6 === wanted ? [] : [order(enableIp6, { sw_if_index: index, enable: wanted })]),
    ...asked.flatMap((one) => [
      order(addNeighbor, { is_add: true, neighbor: neighborOf(index, one.host, mac) }),
      order(addRoute, { is_add: true, is_multipath: false, route: routeTo(one, index) }),
    ]),
  ]);
}

/** Removes what stands for addresses: the routes to the guest, its MAC, and the use of the gateways. */
function undo(
  vpp: VppRequests,
  index: number,
  { neighbors, gateway }: RoutedState,
  routes: readonly HostRoute[],
  order: Order,
): readonly Promise<unknown>[] {
  const removed = [
    ...routes.map((route) => removeRoute(vpp, index, route)),
    ...[...neighbors].map(([host, mac]) => removeNeighbor(vpp, index, host, mac)),
  ];
  if (gateway === undefined) return removed;
  const use = { sw_if_index: gateway, unnumbered_sw_if_index: index, is_add: false };
  return [...removed, order(setUnnumbered, use)];
}

async function removeNeighbor(vpp: VppRequests, index: number, host: string, mac: Buffer): Promise<void> {
  await vpp.request(addNeighbor, { is_add: false, neighbor: neighborOf(index, host, mac) });
}

function neighborOf(
  sw_if_index: number,
  host: string,
  mac_address: Buffer,
): Asked<typeof addNeighbor>["neighbor"] {
  return { sw_if_index, flags: STATIC | WITHOUT_ROUTE, mac_address, ...addressOf(host) };
}

/** Addresses in the tables of their families, IPv4's and IPv6's. */
function inTables(hosts: Iterable<string>, [v4, v6]: RoutedState["tables"]): readonly HostRoute[] {
  return [...hosts].map((host) => ({ host, table: isIPv4(host) ? v4 : v6 }));
}

/** Whether one of the routes is to the same address in the same table. */
function isAmong(routes: readonly HostRoute[], { host, table }: HostRoute): boolean {
  return routes.some((one) => one.table === table && one.host === host);
}

/** Those of the routes that there are and that go out by an interface. */
async function routesBy(
  vpp: VppRequests,
  index: number,
  candidates: readonly HostRoute[],
): Promise<readonly HostRoute[]> {
  const paths = await Promise.all(candidates.map((route) => pathsTo(vpp, route)));
  return candidates.filter((_, at) => goesBy(paths[at] ?? [], index));
}

/** Whether one of the ways is by that interface. */
function goesBy(paths: readonly Path[], index: number): boolean {
  return paths.some(({ type, sw_if_index }) => type === NORMAL && sw_if_index === index);
}

/**
 * Removes a way by an interface from a route. Only one that is there: where another port of ours alone has the route,
 * VPP aborts (an assertion in fib_entry_cover_track, seen with a debug build).
 */
async function removeRoute(vpp: VppRequests, index: number, host: HostRoute): Promise<void> {
  await vpp.request(addRoute, { is_add: false, is_multipath: true, route: routeTo(host, index) });
}

/** Without a next hop the host is on the link itself, and so its own neighbour. */
function routeTo({ host, table }: HostRoute, sw_if_index: number): Asked<typeof addRoute>["route"] {
  const nh = { address: Buffer.alloc(16), via_label: 0, obj_id: 0, classify_table_index: 0 };
  const path = { sw_if_index, table_id: 0, rpf_id: 0, weight: 1, preference: 0, type: NORMAL, flags: 0 };
  const prefix = hostPrefix(addressOf(host));
  const paths = [{ ...path, proto: prefix.af, nh, n_labels: 0, label_stack: NO_LABELS }];
  return { table_id: table, stats_index: 0, prefix, paths };
}

/** @throws Failure port-conflict where one of the guest's addresses is routed to something else */
async function refuseTaken(
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
