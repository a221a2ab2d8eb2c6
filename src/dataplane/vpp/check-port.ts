import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import type { PortRequest } from "../port.ts";
import { findBridge } from "./bridges.ts";
import type { VppContext } from "./context.ts";
import { portDifferences } from "./differences.ts";
import { readGateways } from "./gateways.ts";
import { isOfNode, isSameAttachment } from "./mark.ts";
import { readRoutedState, routingDifferences } from "./routed-state.ts";
import { routingOf } from "./routing.ts";
import type { View, VppPort } from "./view.ts";
import { whyVrfMissing } from "./vrf.ts";

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: VppContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const connection = await context.client.connection(signal);
  return allDifferences(context, connection, await context.views.read(connection, signal), request, signal);
}

/** All that is not as asked, one sentence each. @param view what was read of VPP; routes are read here */
export async function allDifferences(
  context: VppContext,
  connection: VppConnection,
  view: View,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const name = `port ${request.name}`;
  const port = view.ports.find((candidate) => candidate.name === request.name);
  if (port === undefined) return [`${name} does not exist in the switch`];
  if (!isSameAttachment(port.mark, request.owner)) {
    const whose = isOfNode(port.mark, request.owner.node) ? "another container" : "somebody else";
    return [`${name} belongs to ${whose}`];
  }
  const isRouted = request.settings.routed !== undefined;
  const bridge = isRouted ? undefined : findBridge(view, request.bridge);
  if (bridge instanceof Failure) return [bridge.message];
  const { remake, wiring, details } = portDifferences(view, port, request, bridge?.bd_id);
  const routing = await routingProblems(context, connection, port, request, signal);
  return [...remake, ...wiring, ...details, ...routing];
}

async function routingProblems(
  { node }: VppContext,
  connection: VppConnection,
  port: VppPort,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const asked = routingOf(request);
  if (asked === undefined) return [];
  const missing = await whyVrfMissing(connection, asked.vrf, signal);
  if (missing !== undefined) return [missing.message];
  const [state, gateways] = await Promise.all([
    readRoutedState(connection, port.index, asked, signal),
    readGateways(connection, node, signal),
  ]);
  return routingDifferences(port.name, port.index, state, gateways, asked);
}
