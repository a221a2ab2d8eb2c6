import { describeThrown, Failure, isSwitchAway } from "../../failure/failure.ts";
import { createVhostUser, dumpVhostUser, setMtu, tagInterface } from "../../protocols/vpp-api/messages.ts";
import { INTERFACE_EXISTS } from "../../protocols/vpp-api/retval.ts";
import type { PortRequest, PortState } from "../port.ts";
import { createBridge, findBridge } from "./bridges.ts";
import { allDifferences, isServer, portDifferences } from "./check-port.ts";
import { checkRequest, MTU_MAX } from "./check-request.ts";
import { removeGateways } from "./gateways.ts";
import { isOfNode, isSameAttachment, markOf, printMark } from "./mark.ts";
import { whyNotOffered } from "./offers.ts";
import { deletePort } from "./remove-port.ts";
import { allDone, requireDone, startWork, type VppContext, type VppWork } from "./requests.ts";
import { clearRouting, routePort } from "./route-port.ts";
import { routingOf } from "./routed-state.ts";
import { ownerOf, portOf, readPortState, shareView, type View, type VppPort } from "./view.ts";
import { requireVrf } from "./vrf.ts";
import { deletePolicers, type WiredPort, wirePort } from "./wire-port.ts";
import { policersOn, type Wiring, wiringOf } from "./wiring.ts";

/** Each attempt that another client's change spoils; more in a row means that two clients fight over the port. */
const ATTEMPTS = 10;
const UNDO_LIMIT_MS = 5000;

/** {@link Dataplane.ensurePort}: reads, repairs what differs, and reads again where another client was faster. */
export async function ensurePort(
  context: VppContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<PortState> {
  checkRequest(request, context.node);
  const work = await startWork(context, signal);
  await requireOffered(work, request);
  const progress = { created: false };
  let changes: readonly string[] = [];
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const view = await shareView(work);
      if (attempt === 1) changes = await allDifferences(work, view, request);
      const port = await step(work, view, request, progress);
      if (port !== undefined) {
        const mark = markOf(port.name, request.owner);
        const bridge = request.settings.routed === undefined ? request.bridge : "";
        const state = { ...readPortState(context, bridge, port, mark), owner: request.owner };
        return changes.length === 0 ? state : { ...state, changes };
      }
    }
    throw new Failure({
      code: "port-failed",
      what: `port ${JSON.stringify(request.name)} was changed by another client again and again`,
      where: `bridge ${request.bridge}, socket ${request.socketPath}`,
      fix: "find out who else configures VPP (vppctl show api clients)",
    });
  } catch (failure) {
    if (progress.created) await undo(context, request, failure);
    throw failure;
  }
}

/** The port where it is as asked now, undefined where it is to be read again. */
async function step(
  work: VppWork,
  view: View,
  request: PortRequest,
  progress: { created: boolean },
): Promise<VppPort | undefined> {
  const { routed, createBridge: mayCreate } = request.settings;
  const bridge = routed === undefined ? findBridge(view, request.bridge) : undefined;
  if (bridge instanceof Failure) {
    if (bridge.code !== "bridge-missing" || mayCreate !== true) throw bridge;
    await createBridge(work, view, request.bridge);
    return undefined;
  }
  if (routed !== undefined) await requireVrf(work, routed, request.name);
  refuseConflicts(work.context, view, request);
  const port = view.byName.get(request.name);
  const wiring = wiringOf(request, bridge?.bd_id);
  if (port === undefined) return makePort(work, view, request, wiring, progress);
  const differences = portDifferences(view, port, request, bridge?.bd_id);
  if (differences.remake.length > 0) {
    await deletePort(work, view, port);
    return undefined;
  }
  const routing = routingOf(request);
  const wired = { node: work.context.node, ...port };
  if (routing === undefined && view.unnumbered.has(port.index)) {
    if ((await clearRouting(work, wired)) === "gone") return undefined;
  }
  await allDone([
    differences.details.length === 0 ? undefined : setDetails(work, wired, request),
    differences.wiring.length === 0 ? undefined : wirePort(work, wired, wiring),
  ]);
  const isRerouted = routing !== undefined && (await routePort(work, wired, routing)) !== "unchanged";
  const isSettled = differences.details.length + differences.wiring.length === 0 && !isRerouted;
  if (isSettled) return port;
  return readBack(work, port.index, request);
}

/** The new port; undefined where another client has just made an interface with this socket. */
async function makePort(
  work: VppWork,
  view: View,
  request: PortRequest,
  wiring: Wiring,
  progress: { created: boolean },
): Promise<VppPort | undefined> {
  progress.created = true; // from here on: when no answer comes it may be there
  const { retval, sw_if_index: index } = await work.request(createVhostUser, {
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
  });
  if (retval < 0) progress.created = false;
  if (retval === INTERFACE_EXISTS) return undefined;
  requireDone(retval, `port ${request.name}, socket ${request.socketPath}`);
  const made = { node: work.context.node, name: request.name, index, subInterfaces: [] };
  // Of an interface that another client deleted; the one of this very number is wired again.
  const stale = policersOn(view, made.node, made.name).filter((policer) => policer.index !== index);
  await deletePolicers(work, stale);
  const routing = routingOf(request);
  const connect = async () => {
    const routed = routing === undefined || (await routePort(work, made, routing, { isNew: true }));
    if (routed !== "gone") await wirePort(work, made, wiring);
  };
  await allDone([setDetails(work, made, request), connect()]);
  return readBack(work, index, request);
}

async function setDetails(
  work: VppWork,
  { index, name }: WiredPort,
  { mtu, owner }: PortRequest,
): Promise<void> {
  const order = work.orders(`port ${name}`);
  await Promise.all([
    order(tagInterface, { is_add: true, sw_if_index: index, tag: printMark(markOf(name, owner)) }),
    order(setMtu, { sw_if_index: index, mtu: [mtu ?? MTU_MAX, 0, 0, 0] }),
  ]);
}

/** The port as it is now; undefined where it is not ours any more. */
async function readBack(
  work: VppWork,
  sw_if_index: number,
  { name, owner }: PortRequest,
): Promise<VppPort | undefined> {
  const [row, [vhost]] = await Promise.all([
    work.interface(sw_if_index),
    work.dump(dumpVhostUser, { sw_if_index }),
  ]);
  if (row === undefined || vhost === undefined) return undefined;
  const port = portOf(vhost, row, []);
  return isSameAttachment(port.mark, owner) && port.name === name ? port : undefined;
}

/** @throws Failure port-conflict where the name or the socket is another's: VPP has one interface per socket */
function refuseConflicts(context: VppContext, view: View, { name, socketPath, owner }: PortRequest): void {
  const conflict = (port: VppPort, what: string, where: string) => {
    const fix = `if nothing uses it: vppctl delete vhost-user ${port.interface.interface_name}`;
    return new Failure({ code: "port-conflict", what, where, fix });
  };
  const port = view.byName.get(name);
  if (port !== undefined && !isSameAttachment(port.mark, owner)) {
    const other =
      port.mark && isOfNode(port.mark, context.node) ? ownerOf(context, port, port.mark) : undefined;
    const holder = other && `interface ${other.interfaceName} of allocation ${other.allocationId}`;
    const what = `port ${JSON.stringify(name)} exists already and belongs to ${holder ?? "another client of VPP"}`;
    throw conflict(port, what, `interface ${port.interface.interface_name}, sw_if_index ${port.index}`);
  }
  const rival = view.ports.find((one) => one.vhost.sock_filename === socketPath && one.name !== name);
  if (rival === undefined) return;
  const what = `socket ${socketPath} is already served by port ${JSON.stringify(rival.name)}`;
  throw conflict(rival, what, `port ${name}`);
}

/** @throws Failure dataplane-misconfigured where this VPP does not offer what the network's settings need */
async function requireOffered(work: VppWork, { settings }: PortRequest): Promise<void> {
  const { vlan, fromGuest, toGuest, routed } = settings;
  for (const [offer, isAsked] of [
    ["ports", true],
    ["VLANs", vlan !== undefined],
    ["limits", (fromGuest ?? toGuest) !== undefined],
    ["routed ports", routed !== undefined],
  ] as const) {
    const refusal = isAsked ? await whyNotOffered(work, offer) : undefined;
    if (refusal !== undefined) throw refusal;
  }
}

/** Also where the answer to the creation never came: what is deleted is known by its mark, not by its number. */
async function undo(context: VppContext, request: PortRequest, failure: unknown): Promise<void> {
  const port = request.name;
  try {
    const work = await startWork(context, AbortSignal.timeout(UNDO_LIMIT_MS));
    const view = await shareView(work);
    const made = view.ports.find(({ name, mark }) => name === port && isSameAttachment(mark, request.owner));
    if (made !== undefined) await deletePort(work, view, made, routingOf(request));
    // A gateway that was made for this port is not used yet.
    if (request.settings.routed !== undefined) await removeGateways(work);
    context.logger.info(
      { port, reason: describeThrown(failure) },
      "removed a port that could not be made whole",
    );
  } catch (thrown) {
    context.logger[isSwitchAway(thrown) ? "debug" : "warn"](
      { port, reason: describeThrown(failure), err: thrown },
      "could not remove a port that could not be made whole; the next ADD adopts it or reclaim removes it",
    );
  }
}
