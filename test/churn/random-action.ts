import { PodActions } from "./actions.ts";
import type { ChurnNode } from "./churn-node.ts";
import { ClaimActions } from "./claim-actions.ts";
import type { Dice } from "./dice.ts";

/** Does one action at random to a pod of the node, with a claim where the node has any; on none that another one works on. */
export function randomActions(lane: ChurnNode): (dice: Dice) => Promise<string> {
  const pods = new PodActions();
  const claims = new ClaimActions();
  return (dice) =>
    lane.claims !== undefined && dice.percent(35) ? claims.one(lane.claims, dice) : pods.one(lane, dice);
}
