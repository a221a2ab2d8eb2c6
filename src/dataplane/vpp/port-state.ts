import { getSystemErrorName } from "node:util";
import { isAllocationId } from "../../names/allocation-id.ts";
import type { PortOwner, PortState } from "../port.ts";
import type { VppContext } from "./context.ts";
import { type Mark, markOf } from "./mark.ts";
import type { VppPort } from "./view.ts";

/** if_status_flags of sw_interface_details: both rings of the guest are ready. */
export const LINK_UP = 2;
/** What connect(2) fails with while the guest's side is not there yet; VPP tries again every three seconds. */
const NOBODY_THERE = new Set(["ENOENT", "ECONNREFUSED", "EAGAIN", "EINPROGRESS"]);

/** What VPP says about a port of ours. */
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
  return NOBODY_THERE.has(name) ? undefined : `VPP cannot connect to the socket: ${name}`;
}
