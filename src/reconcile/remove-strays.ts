import { describeThrown } from "../failure/failure.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** Removes from every switch what ports of ours left behind in it: somebody else removed them, or we were killed. */
export async function removeStrays(pass: ReconcilePass): Promise<void> {
  for (const dataplane of pass.context.pools.dataplanes()) {
    try {
      const removed = await dataplane.removeStrays(portSignal(pass));
      if (removed === 0) continue;
      pass.logger.warn({ removed }, "removed what ports left behind in the switch");
      for (let count = 0; count < removed; count += 1) pass.observer.repaired("stray");
    } catch (error) {
      pass.observer.itemFailed(error);
      pass.logger.warn({ reason: describeThrown(error) }, "a switch cannot be cleared of what ports left");
    }
  }
}
