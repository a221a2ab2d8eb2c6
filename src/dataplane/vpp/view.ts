import { getSystemErrorName } from "node:util";
import { timeoutFailure } from "../../failure/failure.ts";
import { isAllocationId } from "../../names/allocation-id.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  ANY_INDEX,
  dumpBridgeDomains,
  dumpInterfaces,
  dumpPolicers,
  dumpVhostUser,
} from "../../protocols/vpp-api/messages.ts";
import { dumpUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { SharedRead } from "../../sync/shared-read.ts";
import type { PortOwner, PortState } from "../port.ts";
import { isOfNode, type Mark, markOf, parseMark } from "./mark.ts";
import { lackingMessage } from "./offers.ts";
import { type PolicerPlace, parsePolicerName } from "./policers.ts";
import { startWork, type VppContext, VppRequests, type VppWork } from "./requests.ts";

/** Time for one reading; a VPP that swallows a request must not keep all later ones waiting. */
const READ_MS = 5_000;
/** if_status_flags of sw_interface_details: both rings of the guest are ready. */
export const LINK_UP = 2;
/** What connect(2) fails with while the guest's side is not there yet; VPP tries again every three seconds. */
const GUEST_AWAY = new Set(["ENOENT", "ECONNREFUSED", "EAGAIN", "EINPROGRESS"]);

export type Interface = Answered<typeof dumpInterfaces>;
export type VhostUser = Answered<typeof dumpVhostUser>;
export type BridgeDomain = Answered<typeof dumpBridgeDomains>;

/** A vhost-user interface with all that belongs to it. */
export interface VppPort {
  readonly index: number;
  /** From its mark; the tag or VPP's own name where it is not ours. */
  readonly name: string;
  /** Whose it is, where its tag is a mark of ours, of whatever node. */
  readonly mark: Mark | undefined;
  readonly interface: Interface;
  readonly vhost: VhostUser;
  readonly subInterfaces: readonly Interface[];
}

/** A policer with our mark. */
export interface VppPolicer extends PolicerPlace {
  readonly details: Answered<typeof dumpPolicers>;
}

/** Where an interface is a member. */
export interface Membership {
  readonly bridge: number;
  /** Split-horizon group; members of the same group but 0 do not talk to each other. */
  readonly group: number;
}

/** VPP's configuration, as far as ports need it. */
export interface View {
  readonly ports: readonly VppPort[];
  readonly byName: ReadonlyMap<string, VppPort>;
  readonly interfaces: ReadonlyMap<number, Interface>;
  readonly bridges: readonly BridgeDomain[];
  readonly members: ReadonlyMap<number, Membership>;
  readonly policers: readonly VppPolicer[];
  /** Interfaces that use the addresses of another one, which is the value. */
  readonly unnumbered: ReadonlyMap<number, number>;
}

const sharedReads = new WeakMap<VppConnection, SharedRead<View>>();

/**
 * A reading that begins after the call, shared by calls that come at the same time: after a restart of VPP a hundred
 * ports ask at once, and each reading grows with the ports.
 * @throws Failure as {@link readView}, dataplane-timeout when the signal fires
 */
export function shareView({ connection, signal }: VppRequests): Promise<View> {
  const read = () => readView(new VppRequests(connection, AbortSignal.timeout(READ_MS)));
  const shared = sharedReads.get(connection) ?? new SharedRead({ read });
  sharedReads.set(connection, shared);
  return orAborted(shared.get(), signal, () =>
    timeoutFailure(signal, {
      what: "VPP did not list its configuration in time",
      fix: "check that VPP's main thread is not stuck",
    }),
  );
}

/** Reads all of it in one go; other clients of VPP may change something between its parts. */
export async function readView(vpp: VppRequests): Promise<View> {
  const all = { sw_if_index: ANY_INDEX };
  const [interfaces, vhosts, bridges, unnumbered, policers] = await Promise.all([
    vpp.dump(dumpInterfaces, { ...all, name_filter_valid: false, name_filter: "" }),
    vpp.dump(dumpVhostUser, all),
    vpp.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, ...all }),
    vpp.dump(dumpUnnumbered, all),
    readPolicers(vpp),
  ]);
  const byIndex = new Map(interfaces.map((row) => [row.sw_if_index, row]));
  const children = Map.groupBy(
    interfaces.filter((row) => row.sup_sw_if_index !== row.sw_if_index),
    (row) => row.sup_sw_if_index,
  );
  const ports = vhosts.flatMap((vhost) => {
    const row = byIndex.get(vhost.sw_if_index);
    return row === undefined ? [] : portOf(vhost, row, children.get(row.sw_if_index) ?? []);
  });
  return {
    ports,
    // Other clients may give a name twice; the first has it.
    byName: new Map(ports.toReversed().map((port) => [port.name, port])),
    interfaces: byIndex,
    bridges,
    members: new Map(
      bridges.flatMap(({ bd_id, sw_if_details }) =>
        sw_if_details.map(({ sw_if_index, shg }) => [sw_if_index, { bridge: bd_id, group: shg }] as const),
      ),
    ),
    unnumbered: new Map(unnumbered.map((row) => [row.sw_if_index, row.ip_sw_if_index])),
    policers,
  };
}

/** All policers with a mark of ours, of whatever node. */
export async function readPolicers(vpp: VppRequests): Promise<readonly VppPolicer[]> {
  if (lackingMessage(vpp.connection, "limits") !== undefined) return [];
  const rows = await vpp.dump(dumpPolicers, { match_name_valid: false, match_name: "" });
  return rows.flatMap((details) => {
    const place = parsePolicerName(details.name);
    return place === undefined ? [] : { ...place, details };
  });
}

/** A port, by its interface's rows. */
export function portOf(vhost: VhostUser, row: Interface, subInterfaces: readonly Interface[]): VppPort {
  const mark = parseMark(row.tag);
  const name = mark?.name ?? (row.tag === "" ? row.interface_name : row.tag);
  return { index: row.sw_if_index, name, mark, interface: row, vhost, subInterfaces };
}

/**
 * The interface of a port of this node; undefined where it is that port no longer: another client may have deleted it,
 * and VPP reuses its number.
 */
export async function readPortInterface(
  work: VppWork,
  name: string,
  index: number,
): Promise<Interface | undefined> {
  const row = await work.interface(index);
  const mark = row && parseMark(row.tag);
  return mark?.name === name && isOfNode(mark, work.context.node) ? row : undefined;
}

/** A bridge domain's name: its tag, else its number. */
export function bridgeName({ bd_id, bd_tag }: BridgeDomain): string {
  return bd_tag === "" ? String(bd_id) : bd_tag;
}

/** {@link Dataplane.listPorts}. */
export async function listPorts(context: VppContext, signal: AbortSignal): Promise<readonly PortState[]> {
  const view = await shareView(await startWork(context, signal));
  const names = new Map(view.bridges.map((bridge) => [bridge.bd_id, bridgeName(bridge)]));
  return view.ports.flatMap((port) => {
    if (port.mark === undefined || !isOfNode(port.mark, context.node)) return [];
    const members = [port.index, ...port.subInterfaces.map(({ sw_if_index }) => sw_if_index)];
    const [bridge] = members.flatMap((member) => view.members.get(member)?.bridge ?? []);
    const name = bridge === undefined ? "" : (names.get(bridge) ?? "");
    return readPortState(context, name, port, port.mark);
  });
}

/** The state of a port of ours, from what VPP lists of it. */
export function readPortState(context: VppContext, bridge: string, port: VppPort, mark: Mark): PortState {
  const error = errorOf(port);
  return {
    name: port.name,
    bridge,
    socketPath: port.vhost.sock_filename,
    mtu: mtuOf(port),
    owner: ownerOf(context, port, mark),
    link: (port.interface.flags & LINK_UP) === 0 ? "down" : "up",
    // The guest's side has shared its memory; VPP has no word for a connection without it.
    connected: port.vhost.num_regions > 0,
    ...(error === undefined ? {} : { error }),
  };
}

/** MTU of layer 3. */
export function mtuOf(port: Pick<VppPort, "interface">): number {
  return port.interface.mtu[0] ?? 0;
}

/**
 * The owner as our records have it, or, where they are lost, as far as the socket's path says:
 * `<root>/<allocation>/<interface>/<socket>`.
 */
export function ownerOf(context: VppContext, port: VppPort, mark: Mark): PortOwner {
  const known = context.ownersOf(port.name).map((owner) => ({ owner, mark: markOf(port.name, owner) }));
  const same = known.filter((one) => one.mark.node === mark.node && one.mark.attachment === mark.attachment);
  const found = same.find((one) => one.mark.details === mark.details) ?? same[0];
  if (found !== undefined) return found.owner;
  const [, interfaceName = "", allocationId = ""] = port.vhost.sock_filename.split("/").reverse();
  const ours = isAllocationId(allocationId);
  return {
    node: context.node,
    podNamespace: "",
    podName: "",
    podUid: "",
    containerId: "",
    interfaceName: ours ? interfaceName : "",
    network: "",
    mac: "",
    allocationId: ours ? allocationId : "",
  };
}

function errorOf({ vhost }: VppPort): string | undefined {
  if (vhost.sock_errno <= 0) return undefined;
  const name = getSystemErrorName(-vhost.sock_errno);
  return GUEST_AWAY.has(name) ? undefined : `VPP cannot connect to the socket: ${name}`;
}
