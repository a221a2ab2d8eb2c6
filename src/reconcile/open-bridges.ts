import { distinctDataplanes } from "../attachment/node-context.ts";
import { describeThrown } from "../failure/failure.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/** Tells every switch that its ports are as they should be. */
export async function openBridges(pass: ReconcilePass): Promise<void> {
  for (const dataplane of distinctDataplanes(pass.context)) {
    try {
      await dataplane.portsSettled(portSignal(pass));
    } catch (error) {
      pass.observer.itemFailed(error);
      pass.logger.warn({ reason: describeThrown(error) }, "a bridge that is held back cannot be opened");
    }
  }
}
