import type { AllocationPlaces } from "../allocation/ensure-allocation.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import type { Logger } from "../logging/logger.ts";
import { within } from "../sync/deadlines.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { ReconcileObserver } from "./reconcile-observer.ts";

/** What every stage of a pass works with. */
export interface ReconcilePass {
  readonly context: NodeContext;
  readonly places: AllocationPlaces;
  readonly locks: KeyedMutex;
  readonly logger: Logger;
  readonly observer: ReconcileObserver;
  /** Fires when the daemon stops. */
  readonly stop: AbortSignal;
}

/** Time for one port: one that the switch does not apply must not use up the others' time. */
const PORT_MS = 8_000;

/** The signal for the work on one port, or on one listing. */
export function portSignal(pass: ReconcilePass): AbortSignal {
  pass.observer.progress();
  return within(pass.stop, PORT_MS);
}
