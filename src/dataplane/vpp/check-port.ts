import { Failure } from "../../failure/failure.ts";
import type { PortRequest } from "../port.ts";
import { findBridge } from "./bridges.ts";
import { MTU_MAX } from "./check-request.ts";
import { detailsDigest, isOfNode, isSameAttachment } from "./mark.ts";
import { startWork, type VppContext, type VppWork } from "./requests.ts";
import { readRouting } from "./route-port.ts";
import { routingOf } from "./routed-state.ts";
import { mtuOf, shareView, type View, type VppPort } from "./view.ts";
import { whyVrfMissing } from "./vrf.ts";
import { wiringDifferences, wiringOf } from "./wiring.ts";

/** What of a port is not as asked, by how it is repaired; one sentence each. */
export interface Differences {
  /** Only a new interface helps. */
  readonly remake: readonly string[];
  /** Bridge, VLANs and limits, which are repaired together. */
  readonly wiring: readonly string[];
  /** Repaired one by one. */
  readonly details: readonly string[];
}

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: VppContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const work = await startWork(context, signal);
  return allDifferences(work, await shareView(work), request);
}

/** {@link Dataplane.settledPorts}. */
export async function settledPorts(
  context: VppContext,
  requests: readonly PortRequest[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const work = await startWork(context, signal);
  const view = await shareView(work);
  const checked = requests.map(async (request) => {
    const found = await allDifferences(work, view, request);
    return found.length === 0 ? [request.name] : [];
  });
  return (await Promise.all(checked)).flat();
}

/** All that is not as asked, one sentence each. @param view what was read of VPP; routes are read here */
export async function allDifferences(
  work: VppWork,
  view: View,
  request: PortRequest,
): Promise<readonly string[]> {
  const name = `port ${request.name}`;
  const port = view.byName.get(request.name);
  if (port === undefined) return [`${name} does not exist in the switch`];
  if (!isSameAttachment(port.mark, request.owner)) {
    const owner = isOfNode(port.mark, request.owner.node) ? "another interface" : "another client of VPP";
    return [`${name} belongs to ${owner}`];
  }
  const isRouted = request.settings.routed !== undefined;
  const bridge = isRouted ? undefined : findBridge(view, request.bridge);
  if (bridge instanceof Failure) return [bridge.message];
  const { remake, wiring, details } = portDifferences(view, port, request, bridge?.bd_id);
  return [...remake, ...wiring, ...details, ...(await routingProblems(work, port, request))];
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
  if (mark?.details !== detailsDigest(request.owner)) {
    details.push(`${name} has another mark than its owner's`);
  }
  const wiring = wiringDifferences(view, port, request.owner.node, wiringOf(request, bridge));
  return { remake, wiring, details };
}

/** Whether VPP is to make the socket. */
export function isServer(request: PortRequest): boolean {
  return request.settings.socketServer === "switch";
}

async function routingProblems(
  work: VppWork,
  port: VppPort,
  request: PortRequest,
): Promise<readonly string[]> {
  const asked = routingOf(request);
  if (asked === undefined) return [];
  const missing = await whyVrfMissing(work, asked.vrf);
  return missing === undefined ? (await readRouting(work, port, asked)).differences : [missing.message];
}
