import { Failure } from "../../failure/failure.ts";
import type { Asked } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { dumpInterfaces } from "../../protocols/vpp-api/messages.ts";
import {
  addNeighbor,
  addRoute,
  dumpNeighbors,
  enableIp6,
  findRoute,
  getTable,
  setTable,
  setUnnumbered,
} from "../../protocols/vpp-api/routing-messages.ts";
import type { VppContext } from "./context.ts";
import { ensureGateway, readGateways, removeUnusedGateways } from "./gateways.ts";
import { goesBy, type HostRoute, inTables, isAmong, removeRoute, routesBy, routeTo } from "./host-routes.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { type Order, orders } from "./require-done.ts";
import {
  type RoutedState,
  readRoutedState,
  readStaticNeighbors,
  routingDifferences,
  STATIC,
  wantsIp6,
} from "./routed-state.ts";
import { type Address, addressKey, type Routing } from "./routing.ts";
import { refuseTaken } from "./taken-addresses.ts";

/** Flag of ip_neighbor: no route of its own; VPP gives it none where no network of the interface's covers it. */
const WITHOUT_ROUTE = 2;

/** A port of ours, by what VPP knows it by. */
export interface RoutedPort {
  readonly name: string;
  readonly index: number;
}

/**
 * Makes a port's routing as asked where it differs: its table, the loopback whose addresses it uses, and for each
 * address of the guest a route to it by this interface and its MAC.
 * @returns false where the interface was not that port any more when its turn came; then nothing is done
 * @throws Failure port-conflict where an address is somebody else's already, dataplane-misconfigured
 */
export async function routePort(
  context: VppContext,
  connection: VppConnection,
  port: RoutedPort,
  routing: Routing,
  { isNew }: { readonly isNew: boolean },
  signal: AbortSignal,
): Promise<boolean> {
  const read = () =>
    Promise.all([
      readRoutedState(connection, port.index, routing, signal),
      readGateways(connection, context.node, signal),
    ]);
  const differs = ([state, gateways]: Awaited<ReturnType<typeof read>>) =>
    routingDifferences(port.name, port.index, state, gateways, routing).length > 0;
  // A route that outlived an interface of this number looks as if it were right, and leads nowhere.
  if (!isNew && !differs(await read())) return true;
  return inGatewayTurn(context, `port ${port.name}`, signal, async () => {
    const [isThere, [state, gateways]] = await Promise.all([
      isStillPort(context, connection, port, signal),
      read(),
    ]);
    if (!isThere) return false;
    await refuseTaken(context, connection, port, routing, state, signal);
    const owner = { node: context.node, port: port.name };
    const gateway = await ensureGateway(connection, gateways, routing, owner, signal);
    await apply(connection, port, routing, state, gateway, signal);
    if (state.gateway !== undefined) await removeUnusedGateways(connection, context.node, signal);
    return true;
  });
}

/**
 * Takes the routes to a port's guest back, also of one that was routed by half; all else goes with the interface. Each
 * is known by the static neighbour that was made before it: a bridge's port has none.
 * @param asked routing that may not have come as far as its neighbours or its table
 * @returns whether there was something
 */
export async function unroutePort(
  connection: VppConnection,
  index: number,
  asked: Pick<Routing, "hosts" | "vrf"> | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  // One that lacks any of them cannot have routed a port, and bridges' ports need none.
  if (![getTable, dumpNeighbors, findRoute, addRoute].every((needed) => connection.knows(needed)))
    return false;
  const [v4, v6, neighbors] = await Promise.all([
    connection.request(getTable, { sw_if_index: index, is_ipv6: false }, signal),
    connection.request(getTable, { sw_if_index: index, is_ipv6: true }, signal),
    readStaticNeighbors(connection, index, signal),
  ]);
  const { hosts, vrf } = asked ?? { hosts: [], vrf: 0 };
  const known = inTables(neighbors.values(), [v4.vrf_id, v6.vrf_id]);
  const candidates = [...known, ...inTables(hosts, [vrf, vrf]).filter((one) => !isAmong(known, one))];
  const routes = await routesBy(connection, index, candidates, signal);
  await Promise.all(routes.map((route) => removeRoute(connection, index, route, signal)));
  return candidates.length > 0;
}

/** Deletes our loopbacks that no port uses any more, and tells how many. */
export function settleGateways(
  context: VppContext,
  connection: VppConnection,
  signal: AbortSignal,
): Promise<number> {
  return inGatewayTurn(context, "removal of unused gateways", signal, () =>
    removeUnusedGateways(connection, context.node, signal),
  );
}

/**
 * Makes a routed port one that can be a bridge's again; its guest stays connected.
 * @returns as {@link routePort} does
 */
export async function clearRouting(
  context: VppContext,
  connection: VppConnection,
  port: RoutedPort,
  signal: AbortSignal,
): Promise<boolean> {
  const { name, index } = port;
  return inGatewayTurn(context, `port ${name}`, signal, async () => {
    if (!(await isStillPort(context, connection, port, signal))) return false;
    const state = await readRoutedState(connection, index, { hosts: [], vrf: 0 }, signal);
    const old = await routesBy(connection, index, inTables(state.neighbors.values(), state.tables), signal);
    const order = orders(connection, `port ${name}`, signal);
    await Promise.all([
      ...undo(connection, index, state, old, order, signal),
      ...(state.hasIp6 ? [order(enableIp6, { sw_if_index: index, enable: false })] : []),
      ...[false, true].map((is_ipv6) => order(setTable, { sw_if_index: index, is_ipv6, vrf_id: 0 })),
    ]);
    await removeUnusedGateways(connection, context.node, signal);
    return true;
  });
}

/** While a call waits for its turn somebody may delete the interface, and VPP gives its number to the next. */
async function isStillPort(
  { node }: VppContext,
  connection: VppConnection,
  { name, index }: RoutedPort,
  signal: AbortSignal,
): Promise<boolean> {
  const ask = { sw_if_index: index, name_filter_valid: false, name_filter: "" };
  const [row] = await connection.dump(dumpInterfaces, ask, signal);
  const mark = row && parseMark(row.tag);
  return mark?.name === name && isOfNode(mark, node);
}

/** Undoes what there is and makes it anew, in one write: VPP does not move an interface that uses another's addresses. */
async function apply(
  connection: VppConnection,
  { name, index }: RoutedPort,
  routing: Routing,
  state: RoutedState,
  gateway: number,
  signal: AbortSignal,
): Promise<void> {
  const order = orders(connection, `port ${name}`, signal);
  const { vrf, hosts, mac } = routing;
  const wanted = wantsIp6(routing);
  const known = inTables(state.neighbors.values(), state.tables);
  const asked = inTables(hosts, [vrf, vrf]);
  // One that outlived an interface of this number is not looked at again by adding it again.
  const outlived = asked.filter(
    (one) => !isAmong(known, one) && goesBy(state.routes.get(addressKey(one.host)) ?? [], index),
  );
  const old = [...(await routesBy(connection, index, known, signal)), ...outlived];
  await Promise.all([
    ...undo(connection, index, state, old, order, signal),
    ...[false, true].map((is_ipv6) => order(setTable, { sw_if_index: index, is_ipv6, vrf_id: vrf })),
    order(setUnnumbered, { sw_if_index: gateway, unnumbered_sw_if_index: index, is_add: true }),
    ...(state.hasIp6 === wanted ? [] : [order(enableIp6, { sw_if_index: index, enable: wanted })]),
    ...asked.flatMap((one) => [
      order(addNeighbor, { is_add: true, neighbor: neighborOf(index, one.host, mac) }),
      order(addRoute, { is_add: true, is_multipath: false, route: routeTo(one, index) }),
    ]),
  ]);
}

/** Takes away what stands for addresses: the routes to the guest, its MAC, and the use of the gateways. */
function undo(
  connection: VppConnection,
  index: number,
  { neighbors, gateway }: RoutedState,
  routes: readonly HostRoute[],
  order: Order,
  signal: AbortSignal,
): readonly Promise<unknown>[] {
  const taken = [
    ...routes.map((route) => removeRoute(connection, index, route, signal)),
    ...[...neighbors.values()].map((host) => {
      const values = { is_add: false, neighbor: neighborOf(index, host, host.mac_address) };
      return connection.request(addNeighbor, values, signal);
    }),
  ];
  if (gateway === undefined) return taken;
  const use = { sw_if_index: gateway, unnumbered_sw_if_index: index, is_add: false };
  return [...taken, order(setUnnumbered, use)];
}

function neighborOf(
  sw_if_index: number,
  { af, un }: Address,
  mac_address: Buffer,
): Asked<typeof addNeighbor>["neighbor"] {
  return { sw_if_index, flags: STATIC | WITHOUT_ROUTE, mac_address, af, un };
}

function inGatewayTurn<Value>(
  context: VppContext,
  what: string,
  signal: AbortSignal,
  task: () => Promise<Value>,
): Promise<Value> {
  return context.gateways.run({ key: "gateways", what, signal }, task, (_busy, running) => {
    if (signal.reason instanceof Failure) throw signal.reason;
    throw new Failure({
      code: "dataplane-timeout",
      what: `time was up before the turn of ${what} at the gateways came: ${running} is at them`,
      cause: signal.reason,
    });
  });
}
