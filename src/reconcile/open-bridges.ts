import { describeThrown } from "../failure/failure.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** Lets the bridges of every switch forward, now that its ports are as asked. */
export async function openBridges(pass: ReconcilePass): Promise<void> {
  for (const dataplane of pass.context.pools.dataplanes()) {
    try {
      await dataplane.enableForwarding?.(portSignal(pass));
    } catch (error) {
      pass.observer.itemFailed(error);
      pass.logger.warn({ reason: describeThrown(error) }, "a bridge that is held back cannot be opened");
    }
  }
}
