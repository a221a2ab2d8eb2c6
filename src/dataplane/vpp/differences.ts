import { Failure } from "../../failure/failure.ts";
import type { PortRequest } from "../port.ts";
import { MTU_MAX } from "./check-request.ts";
import type { VppContext } from "./context.ts";
import { isOfNode, isSameAttachment, markOf } from "./mark.ts";
import { mtuOf } from "./port-state.ts";
import type { View, VppPort } from "./view.ts";
import { wiringDifferences, wiringOf } from "./wiring.ts";

/** What of a port is not as asked, by what it takes to mend it; one sentence each. */
export interface Differences {
  /** Only a new interface helps. */
  readonly remake: readonly string[];
  /** Bridge, VLANs and limits, which are mended together. */
  readonly wiring: readonly string[];
  /** Mended one by one. */
  readonly details: readonly string[];
}

/** Pure: compares a port that is ours with what is asked. */
export function portDifferences(
  view: View,
  port: VppPort,
  request: PortRequest,
  bridge: number | undefined,
): Differences {
  const { vhost, mark } = port;
  const name = `port ${port.name}`;
  const remake: string[] = [];
  const details: string[] = [];
  if (vhost.sock_filename !== request.socketPath) {
    remake.push(`${name} has socket ${vhost.sock_filename}, asked was ${request.socketPath}`);
  }
  if (vhost.is_server !== isServer(request)) {
    remake.push(`${name} has the ${vhost.is_server ? "server" : "client"}'s side of the socket`);
  }
  if (bridge !== undefined && view.unnumbered.has(port.index)) {
    details.push(`${name} is routed, asked was bridge ${request.bridge}`);
  }
  const mtu = request.mtu ?? MTU_MAX;
  if (mtuOf(port) !== mtu) details.push(`${name} has MTU ${mtuOf(port)}, asked was ${mtu}`);
  if (mark?.details !== markOf(port.name, request.owner).details) {
    details.push(`${name} has another mark than its owner's`);
  }
  const wiring = wiringDifferences(view, port, request.owner.node, wiringOf(request, bridge));
  return { remake, wiring, details };
}

/** Whether VPP is to make the socket. */
export function isServer(request: PortRequest): boolean {
  return request.settings.socketServer === "switch";
}

/** @throws Failure port-conflict where the port's name belongs to another container or to somebody else */
export function refuseForeign(context: VppContext, port: VppPort, request: PortRequest, owner: string): void {
  if (isSameAttachment(port.mark, request.owner)) return;
  throw new Failure({
    code: "port-conflict",
    what: `port ${JSON.stringify(request.name)} exists already and belongs to ${isOfNode(port.mark, context.node) ? owner : "somebody else"}`,
    where: `interface ${port.interface.interface_name}, sw_if_index ${port.index}`,
    fix: `if nothing uses it: vppctl delete vhost-user ${port.interface.interface_name}`,
  });
}
