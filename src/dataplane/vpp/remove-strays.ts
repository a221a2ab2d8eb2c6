import type { VppContext } from "./context.ts";
import { isOfNode } from "./mark.ts";
import { deletePolicer } from "./wire-port.ts";

/** {@link Dataplane.removeStrays}: policers whose port somebody else deleted. */
export async function removeStrays(context: VppContext, signal: AbortSignal): Promise<number> {
  const connection = await context.client.connection(signal);
  const view = await context.views.read(connection, signal);
  const strays = view.policers.filter(
    (policer) =>
      isOfNode(policer, context.node) &&
      !view.ports.some(({ index, name }) => index === policer.index && name === policer.port),
  );
  await Promise.all(strays.map(({ details }) => deletePolicer(connection, details.name, signal)));
  return strays.length;
}
