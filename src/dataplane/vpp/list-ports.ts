import type { PortState } from "../port.ts";
import { bridgeName } from "./bridges.ts";
import type { VppContext } from "./context.ts";
import { isOfNode } from "./mark.ts";
import { readPortState } from "./port-state.ts";

/** {@link Dataplane.listPorts}. */
export async function listPorts(context: VppContext, signal: AbortSignal): Promise<readonly PortState[]> {
  const view = await context.views.read(await context.client.connection(signal), signal);
  const names = new Map(view.bridges.map((bridge) => [bridge.bd_id, bridgeName(bridge)]));
  return view.ports.flatMap((port) => {
    if (port.mark === undefined || !isOfNode(port.mark, context.node)) return [];
    const members = [port.index, ...port.subInterfaces.map(({ sw_if_index }) => sw_if_index)];
    const [bridge] = members.flatMap((member) => view.members.get(member)?.bridge ?? []);
    const name = bridge === undefined ? "" : (names.get(bridge) ?? "");
    return readPortState(context, name, port, port.mark);
  });
}
