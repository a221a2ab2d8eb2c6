import { getSystemErrorName } from "node:util";
import { isAllocationId } from "../../names/allocation-id.ts";
import type { PortOwner, PortState } from "../port.ts";
import { bridgeName } from "./bridges.ts";
import { isOfNode, type Mark, markOf } from "./mark.ts";
import { startWork, type VppContext } from "./requests.ts";
import { shareView, type VppPort } from "./view.ts";

/** if_status_flags of sw_interface_details: both rings of the guest are ready. */
export const LINK_UP = 2;
/** What connect(2) fails with while the guest's side is not there yet; VPP tries again every three seconds. */
const GUEST_AWAY = new Set(["ENOENT", "ECONNREFUSED", "EAGAIN", "EINPROGRESS"]);

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
 * The owner as our records have it, or, where they are lost, as far as the socket's path tells:
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
