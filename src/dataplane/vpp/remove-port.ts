import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { deleteVhostUser } from "../../protocols/vpp-api/messages.ts";
import type { VppContext } from "./context.ts";
import { isGateway } from "./gateways.ts";
import { isOfNode } from "./mark.ts";
import { orders } from "./require-done.ts";
import { settleGateways, unroutePort } from "./route-port.ts";
import type { Routing } from "./routing.ts";
import type { View, VppPort } from "./view.ts";
import { deletePolicer, removePolicers } from "./wire-port.ts";
import { policersOn } from "./wiring.ts";

/** {@link Dataplane.removePort}; VPP has closed the socket when it answers. */
export async function removePort(context: VppContext, name: string, signal: AbortSignal): Promise<boolean> {
  const connection = await context.client.connection(signal);
  const view = await context.views.read(connection, signal);
  const port = view.ports.find(
    (candidate) => candidate.name === name && isOfNode(candidate.mark, context.node),
  );
  if (port !== undefined) {
    await deletePort(context, connection, view, port, signal);
    return true;
  }
  const gateways = [...view.interfaces.values()].filter((row) => isGateway(row, context.node));
  if (gateways.length > 0) await settleGateways(context, connection, signal);
  await Promise.all(
    policersOn(view, context.node, name).map(({ details }) =>
      deletePolicer(connection, details.name, signal),
    ),
  );
  return false;
}

/**
 * Deletes a port of ours with its sub-interfaces and policers, and with the routes to its guest, which VPP would keep.
 * The policers come off first: VPP does not take them
 * off an interface that it deletes, and the next one of this number would be limited.
 * @param asked routing of a port that could not be made, which may be there by half
 */
export async function deletePort(
  context: VppContext,
  connection: VppConnection,
  view: View,
  { index, name, subInterfaces }: VppPort,
  signal: AbortSignal,
  asked?: Routing,
): Promise<void> {
  const stale = policersOn(view, context.node, name).filter((policer) => policer.index !== index);
  const hadRoutes = await unroutePort(connection, index, asked, signal);
  await Promise.all([
    removePolicers(connection, { node: context.node, name, index, subInterfaces }, signal),
    ...stale.map(({ details }) => deletePolicer(connection, details.name, signal)),
    orders(connection, `port ${name}`, signal)(deleteVhostUser, { sw_if_index: index }),
  ]);
  if (hadRoutes || view.unnumbered.has(index)) await settleGateways(context, connection, signal);
}
