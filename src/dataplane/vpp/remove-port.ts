import { deleteVhostUser } from "../../protocols/vpp-api/messages.ts";
import { removeGateways } from "./gateways.ts";
import { isOfNode } from "./mark.ts";
import { startWork, type VppContext, type VppWork } from "./requests.ts";
import { unroutePort } from "./route-port.ts";
import type { Routing } from "./routed-state.ts";
import { readPolicers, shareView, type View, type VppPolicer, type VppPort } from "./view.ts";
import { deletePolicers, removePolicers } from "./wire-port.ts";
import { policersOn } from "./wiring.ts";

/** {@link Dataplane.removePort}; VPP has closed the socket when it answers. */
export async function removePort(context: VppContext, name: string, signal: AbortSignal): Promise<boolean> {
  const work = await startWork(context, signal);
  const view = await shareView(work);
  const port = view.ports.find((one) => one.name === name && isOfNode(one.mark, context.node));
  if (port !== undefined) {
    await deletePort(work, view, port);
    return true;
  }
  await removeGateways(work);
  await deletePolicers(work, policersOn(view, context.node, name));
  return false;
}

/**
 * Deletes a port of ours with its sub-interfaces and policers, and with the routes to its guest, which VPP would keep.
 * The policers come off first: VPP does not do it for an interface that it deletes, and would limit the next one of
 * this number.
 * @param asked routing of a port that could not be made, which may be there by half
 */
export async function deletePort(
  work: VppWork,
  view: View,
  { index, name, subInterfaces }: VppPort,
  asked?: Routing,
): Promise<void> {
  const { node } = work.context;
  const stale = policersOn(view, node, name).filter((policer) => policer.index !== index);
  const hadRoutes = await unroutePort(work, index, asked);
  await Promise.all([
    removePolicers(work, { node, name, index, subInterfaces }),
    deletePolicers(work, stale),
    work.orders(`port ${name}`)(deleteVhostUser, { sw_if_index: index }),
  ]);
  if (hadRoutes || view.unnumbered.has(index)) await removeGateways(work);
}

/** {@link Dataplane.removeStrays}: policers and gateways whose ports another client of VPP deleted. */
export async function removeStrays(context: VppContext, signal: AbortSignal): Promise<number> {
  const work = await startWork(context, signal);
  return (await removeStrayPolicers(work)) + (await removeGateways(work));
}

async function removeStrayPolicers(work: VppWork): Promise<number> {
  const isOurs = (policer: VppPolicer) => isOfNode(policer, work.context.node);
  // Many nodes have none, and the whole view grows with the ports.
  if (!(await readPolicers(work)).some(isOurs)) return 0;
  const { policers, ports } = await shareView(work);
  const strays = policers.filter(
    (policer) =>
      isOurs(policer) && !ports.some(({ index, name }) => index === policer.index && name === policer.port),
  );
  await deletePolicers(work, strays);
  return strays.length;
}
