import { describeThrown, Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  addPolicer,
  createVhostUser,
  dumpInterfaces,
  dumpVhostUser,
  setMtu,
  tagInterface,
} from "../../protocols/vpp-api/messages.ts";
import { INTERFACE_EXISTS } from "../../protocols/vpp-api/retval.ts";
import type { PortRequest, PortState } from "../port.ts";
import { allDone } from "./all-done.ts";
import { createBridge, findBridge } from "./bridges.ts";
import { allDifferences } from "./check-port.ts";
import { checkRequest, MTU_MAX } from "./check-request.ts";
import type { VppContext } from "./context.ts";
import { isServer, portDifferences, refuseForeign } from "./differences.ts";
import { isOfNode, isSameAttachment, markOf, printMark } from "./mark.ts";
import { ownerOf, readPortState } from "./port-state.ts";
import { deletePort } from "./remove-port.ts";
import { orders, requireDone } from "./require-done.ts";
import { clearRouting, routePort, settleGateways } from "./route-port.ts";
import { routingOf } from "./routing.ts";
import { portOf, type View, type VppPort } from "./view.ts";
import { requireVrf } from "./vrf.ts";
import { deletePolicer, type WiredPort, wirePort } from "./wire-port.ts";
import { policersOn, wiringOf } from "./wiring.ts";

/** Each attempt that another client's change makes void; more in a row means that somebody fights over the port. */
const ATTEMPTS = 10;
const UNDO_LIMIT_MS = 5000;

/** {@link Dataplane.ensurePort}: looks, mends what differs, and looks again where somebody was faster. */
export async function ensurePort(
  context: VppContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<PortState> {
  checkRequest(request, context.node);
  const connection = await context.client.connection(signal);
  requirePolicers(connection, request);
  const progress = { created: false };
  let changes: readonly string[] = [];
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const view = await context.views.read(connection, signal);
      if (attempt === 1) changes = await allDifferences(context, connection, view, request, signal);
      const port = await step(context, connection, view, request, progress, signal);
      if (port !== undefined) {
        const mark = markOf(port.name, request.owner);
        const bridge = request.settings.routed === undefined ? request.bridge : "";
        const state = { ...readPortState(context, bridge, port, mark), owner: request.owner };
        return changes.length === 0 ? state : { ...state, changes };
      }
    }
    throw new Failure({
      code: "port-failed",
      what: `port ${JSON.stringify(request.name)} was changed by somebody else again and again`,
      where: `bridge ${request.bridge}, socket ${request.socketPath}`,
      fix: "find out who else configures VPP (vppctl show api clients)",
    });
  } catch (failure) {
    if (progress.created) await undo(context, request, failure);
    throw failure;
  }
}

/** The port where it is as asked now, undefined where it is to be looked at again. */
async function step(
  context: VppContext,
  connection: VppConnection,
  view: View,
  request: PortRequest,
  progress: { created: boolean },
  signal: AbortSignal,
): Promise<VppPort | undefined> {
  const { routed, createBridge: mayCreate } = request.settings;
  const bridge = routed === undefined ? findBridge(view, request.bridge) : undefined;
  if (bridge instanceof Failure) {
    if (bridge.code !== "bridge-missing" || mayCreate !== true) throw bridge;
    await createBridge(connection, view, request.bridge, signal);
    return undefined;
  }
  if (routed !== undefined) await requireVrf(connection, routed, request.name, signal);
  const port = view.ports.find(({ name }) => name === request.name);
  if (port !== undefined) {
    const holder = port.mark === undefined ? undefined : ownerOf(context, port, port.mark);
    refuseForeign(
      context,
      port,
      request,
      `container ${holder?.containerId} interface ${holder?.interfaceName}`,
    );
  }
  const rival = view.ports.find(
    ({ vhost, name }) => vhost.sock_filename === request.socketPath && name !== request.name,
  );
  if (rival !== undefined) {
    await removeOlder(context, connection, rival, request, signal);
    return undefined;
  }
  const wiring = wiringOf(request, bridge?.bd_id);
  const routing = routingOf(request);
  if (port === undefined) {
    const index = await create(connection, request, progress, signal);
    if (index === undefined) return undefined;
    const made = { node: context.node, name: request.name, index, subInterfaces: [] };
    await removeStale(connection, view, made, signal);
    const connect = async () => {
      const isThere =
        routing === undefined ||
        (await routePort(context, connection, made, routing, { isNew: true }, signal));
      if (isThere) await wirePort(connection, made, wiring, signal);
    };
    await allDone([setDetails(connection, made, request, signal), connect()]);
    return readBack(connection, index, request, signal);
  }
  const differences = portDifferences(view, port, request, bridge?.bd_id);
  if (differences.remake.length > 0) {
    await deletePort(context, connection, view, port, signal);
    return undefined;
  }
  const wired = { node: context.node, name: port.name, index: port.index, subInterfaces: port.subInterfaces };
  if (routing === undefined && view.unnumbered.has(port.index)) {
    if (!(await clearRouting(context, connection, wired, signal))) return undefined;
  }
  await allDone([
    differences.details.length === 0 ? undefined : setDetails(connection, wired, request, signal),
    differences.wiring.length === 0 ? undefined : wirePort(connection, wired, wiring, signal),
  ]);
  if (routing !== undefined) await routePort(context, connection, wired, routing, { isNew: false }, signal);
  return readBack(connection, port.index, request, signal);
}

/** The new interface's index; undefined where somebody has just made one of this socket. */
async function create(
  connection: VppConnection,
  request: PortRequest,
  progress: { created: boolean },
  signal: AbortSignal,
): Promise<number | undefined> {
  progress.created = true; // from here on: when no answer comes it may be there
  const { retval, sw_if_index } = await connection.request(
    createVhostUser,
    {
      is_server: isServer(request),
      sock_filename: request.socketPath,
      renumber: false,
      disable_mrg_rxbuf: false,
      disable_indirect_desc: false,
      enable_gso: false,
      enable_packed: false,
      enable_event_idx: false,
      custom_dev_instance: 0,
      use_custom_mac: false,
      mac_address: Buffer.alloc(6),
      tag: printMark(markOf(request.name, request.owner)),
    },
    signal,
  );
  if (retval < 0) progress.created = false;
  if (retval === INTERFACE_EXISTS) return undefined;
  requireDone(retval, `port ${request.name}, socket ${request.socketPath}`);
  return sw_if_index;
}

async function setDetails(
  connection: VppConnection,
  { index, name }: WiredPort,
  { mtu, owner }: PortRequest,
  signal: AbortSignal,
): Promise<void> {
  const order = orders(connection, `port ${name}`, signal);
  await Promise.all([
    order(tagInterface, { is_add: true, sw_if_index: index, tag: printMark(markOf(name, owner)) }),
    order(setMtu, { sw_if_index: index, mtu: [mtu ?? MTU_MAX, 0, 0, 0] }),
  ]);
}

/** Policers of the same port on an interface that somebody deleted; the one of this very number is wired anew. */
async function removeStale(
  connection: VppConnection,
  view: View,
  { node, name, index }: WiredPort,
  signal: AbortSignal,
): Promise<void> {
  const stale = policersOn(view, node, name).filter((policer) => policer.index !== index);
  await Promise.all(stale.map(({ details }) => deletePolicer(connection, details.name, signal)));
}

/** The port as it is now; undefined where it is not ours any more. */
async function readBack(
  connection: VppConnection,
  sw_if_index: number,
  request: PortRequest,
  signal: AbortSignal,
): Promise<VppPort | undefined> {
  const [[row], [vhost]] = await Promise.all([
    connection.dump(dumpInterfaces, { sw_if_index, name_filter_valid: false, name_filter: "" }, signal),
    connection.dump(dumpVhostUser, { sw_if_index }, signal),
  ]);
  if (row === undefined || vhost === undefined) return undefined;
  const port = portOf(vhost, row, []);
  return isSameAttachment(port.mark, request.owner) && port.name === request.name ? port : undefined;
}

/**
 * A socket belongs to one interface of one allocation, so another port of ours on it is of an older sandbox whose
 * DEL never came, or whose record was lost. VPP takes one interface per socket.
 */
async function removeOlder(
  context: VppContext,
  connection: VppConnection,
  rival: VppPort,
  request: PortRequest,
  signal: AbortSignal,
): Promise<void> {
  if (!isOfNode(rival.mark, context.node)) {
    throw new Failure({
      code: "port-conflict",
      what: `socket ${request.socketPath} is already served by port ${JSON.stringify(rival.name)}`,
      where: `port ${request.name}`,
      fix: `if nothing uses it: vppctl delete vhost-user ${rival.interface.interface_name}`,
    });
  }
  context.logger.warn(
    { port: rival.name, socket: request.socketPath },
    "removing an older sandbox's port of the same socket",
  );
  await deletePort(context, connection, await context.views.read(connection, signal), rival, signal);
}

function requirePolicers(connection: VppConnection, { name, settings }: PortRequest): void {
  const limited = settings.fromGuest !== undefined || settings.toGuest !== undefined;
  if (!limited || connection.knows(addPolicer)) return;
  throw new Failure({
    code: "dataplane-misconfigured",
    what: "this VPP has no policers, which the network's limits need",
    where: `port ${name}`,
    fix: "enable policer_plugin.so in VPP's startup.conf",
  });
}

/** Also where the answer to the creation never came: what is deleted is known by its mark, not by its number. */
async function undo(context: VppContext, request: PortRequest, failure: unknown): Promise<void> {
  const port = request.name;
  try {
    const signal = AbortSignal.timeout(UNDO_LIMIT_MS);
    const connection = await context.client.connection(signal);
    const view = await context.views.read(connection, signal);
    const made = view.ports.find(({ name, mark }) => name === port && isSameAttachment(mark, request.owner));
    if (made !== undefined) await deletePort(context, connection, view, made, signal, routingOf(request));
    // One that was made for this port was not used yet.
    if (request.settings.routed !== undefined) await settleGateways(context, connection, signal);
    context.logger.info({ port, reason: describeThrown(failure) }, "took back a port that was not made");
  } catch (thrown) {
    context.logger.warn(
      { port, reason: describeThrown(failure), err: thrown },
      "could not take back a port that was not made; the next ADD adopts it or collection removes it",
    );
  }
}
