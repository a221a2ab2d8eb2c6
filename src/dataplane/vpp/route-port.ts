import type { Asked } from "../../protocols/vpp-api/call.ts";
import {
  addNeighbor,
  addRoute,
  dumpNeighbors,
  enableIp6,
  findRoute,
  getTable,
  setUnnumbered,
} from "../../protocols/vpp-api/routing-messages.ts";
import { ensureGateway, lockGateways, readGateways, removeUnusedGateways } from "./gateways.ts";
import {
  goesBy,
  inTables,
  isAmong,
  type RoutedPort,
  refuseTaken,
  removeRoute,
  routesBy,
  routeTo,
} from "./host-routes.ts";
import { isOfNode, parseMark } from "./mark.ts";
import type { Order, VppRequests, VppWork } from "./requests.ts";
import {
  addressOf,
  type HostRoute,
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

/** Flag of ip_neighbor: no route of its own; VPP gives it none where no network of the interface's covers it. */
const WITHOUT_ROUTE = 2;

/**
 * Makes a port's routing as asked where it differs: its table, the loopback whose addresses it uses, and for each
 * address of the guest a route to it by this interface and its MAC.
 * @returns false where the interface was not that port any more once the gateways were locked; then nothing is done
 * @throws Failure port-conflict where an address is routed to something else, dataplane-misconfigured
 */
export async function routePort(
  work: VppWork,
  port: RoutedPort,
  routing: Routing,
  { isNew }: { readonly isNew: boolean },
): Promise<boolean> {
  const { node } = work.context;
  const read = () => Promise.all([readRoutedState(work, port.index, routing), readGateways(work, node)]);
  const differs = ([state, gateways]: Awaited<ReturnType<typeof read>>) =>
    routingDifferences(port.name, port.index, state, gateways, routing).length > 0;
  // A route that outlived an interface of this number looks as if it were right, and leads nowhere.
  if (!isNew && !differs(await read())) return true;
  return lockGateways(work, `port ${port.name}`, async () => {
    const [isThere, [state, gateways]] = await Promise.all([isStillPort(work, port), read()]);
    if (!isThere) return false;
    await refuseTaken(work, port, routing, state);
    const gateway = await ensureGateway(work, gateways, routing, port.name);
    await apply(work, port, routing, state, gateway);
    if (state.gateway !== undefined) await removeUnusedGateways(work);
    return true;
  });
}

/**
 * Removes the routes to a port's guest, also of one that was routed by half; all else goes with the interface. Each
 * is known by the static neighbour that was made before it: a bridge's port has none.
 * @param asked routing that may not have come as far as its neighbours or its table
 * @returns whether there was something
 */
export async function unroutePort(
  vpp: VppRequests,
  index: number,
  asked: Pick<Routing, "hosts" | "vrf"> | undefined,
): Promise<boolean> {
  // A VPP that lacks any of them cannot have routed a port, and bridges' ports need none.
  const needed = [getTable, dumpNeighbors, findRoute, addRoute];
  if (!needed.every((call) => vpp.connection.knows(call))) return false;
  const [tables, neighbors] = await Promise.all([readTables(vpp, index), readStaticNeighbors(vpp, index)]);
  const { hosts, vrf } = asked ?? { hosts: [], vrf: 0 };
  const known = inTables(neighbors.keys(), tables);
  const candidates = [...known, ...inTables(hosts, [vrf, vrf]).filter((one) => !isAmong(known, one))];
  const routes = await routesBy(vpp, index, candidates);
  await Promise.all(routes.map((route) => removeRoute(vpp, index, route)));
  return candidates.length > 0;
}

/**
 * Makes a routed port one that can be a bridge's again; its guest stays connected.
 * @returns as {@link routePort} does
 */
export async function clearRouting(work: VppWork, port: RoutedPort): Promise<boolean> {
  const { name, index } = port;
  return lockGateways(work, `port ${name}`, async () => {
    if (!(await isStillPort(work, port))) return false;
    const state = await readRoutedState(work, index, { hosts: [], vrf: 0 });
    const old = await routesBy(work, index, inTables(state.neighbors.keys(), state.tables));
    const order = work.orders(`port ${name}`);
    await Promise.all([
      ...undo(work, index, state, old, order),
      ...(state.hasIp6 ? [order(enableIp6, { sw_if_index: index, enable: false })] : []),
      ...setTables(order, index, 0),
    ]);
    await removeUnusedGateways(work);
    return true;
  });
}

/** While a call waits for the lock another client may delete the interface, and VPP reuses its number. */
async function isStillPort(work: VppWork, { name, index }: RoutedPort): Promise<boolean> {
  const row = await work.interface(index);
  const mark = row && parseMark(row.tag);
  return mark?.name === name && isOfNode(mark, work.context.node);
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
    ...[...neighbors].map(([host, mac]) =>
      vpp.request(addNeighbor, { is_add: false, neighbor: neighborOf(index, host, mac) }),
    ),
  ];
  if (gateway === undefined) return removed;
  const use = { sw_if_index: gateway, unnumbered_sw_if_index: index, is_add: false };
  return [...removed, order(setUnnumbered, use)];
}

function neighborOf(
  sw_if_index: number,
  host: string,
  mac_address: Buffer,
): Asked<typeof addNeighbor>["neighbor"] {
  return { sw_if_index, flags: STATIC | WITHOUT_ROUTE, mac_address, ...addressOf(host) };
}
