import { type Flow, flowKey } from "../../../protocols/openflow/flow.ts";
import { exactValue } from "../../../protocols/openflow/match.ts";

/** What makes a bridge's flows what they are to be. */
export interface FlowChanges {
  readonly add: readonly Flow[];
  readonly remove: readonly Flow[];
}

/**
 * Compares flows of ours with those that are to be. The bridge may hold them with their fields in another order.
 * @param held flows of ours that are either wanted or to go; a flow may come twice
 */
export function planFlows(held: readonly Flow[], wanted: readonly Flow[]): FlowChanges {
  const heldByKey = new Map(held.map((flow) => [flowKey(flow), flow]));
  const wantedKeys = new Set(wanted.map(flowKey));
  return {
    add: wanted.filter((flow) => !isSame(heldByKey.get(flowKey(flow)), flow)),
    // One that is wanted with other actions is replaced by adding it.
    remove: [...heldByKey].filter(([key]) => !wantedKeys.has(key)).map(([, flow]) => flow),
  };
}

/** The port number that a flow of ours is for. */
export function portOf(flow: Flow): number | undefined {
  return exactValue(flow.match, "inPort")?.readUInt32BE();
}

function isSame(held: Flow | undefined, wanted: Flow): boolean {
  return held?.cookie === wanted.cookie && held.instructions.equals(wanted.instructions);
}
