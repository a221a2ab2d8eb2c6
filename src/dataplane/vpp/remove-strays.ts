import type { VppContext } from "./context.ts";
import { isGateway } from "./gateways.ts";
import { isOfNode } from "./mark.ts";
import { settleGateways } from "./route-port.ts";
import { deletePolicer } from "./wire-port.ts";

/** {@link Dataplane.removeStrays}: policers and gateways whose ports somebody else deleted. */
export async function removeStrays(context: VppContext, signal: AbortSignal): Promise<number> {
  const connection = await context.client.connection(signal);
  const view = await context.views.read(connection, signal);
  const strays = view.policers.filter(
    (policer) =>
      isOfNode(policer, context.node) &&
      !view.ports.some(({ index, name }) => index === policer.index && name === policer.port),
  );
  await Promise.all(strays.map(({ details }) => deletePolicer(connection, details.name, signal)));
  const gateways = [...view.interfaces.values()].some((row) => isGateway(row, context.node));
  return strays.length + (gateways ? await settleGateways(context, connection, signal) : 0);
}
