import type { AllocationPlaces } from "../allocation/allocation.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import { describeThrown, Failure, isSwitchAway } from "../failure/failure.ts";
import type { LogFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import { isLoggedAway } from "../pools/pool-monitor.ts";
import type { PortRecord } from "../records/port-record.ts";
import { within } from "../sync/deadlines.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";

/** What everything in this module works with. */
export interface ReconcileScope {
  readonly context: NodeContext;
  readonly places: AllocationPlaces;
  readonly locks: KeyedMutex;
  readonly logger: Logger;
  readonly observer: ReconcileObserver;
  /** Fires when the daemon stops. */
  readonly stop: AbortSignal;
}

/** Milliseconds for one port, directory or listing, so that one that hangs leaves time for the others. */
const STEP_MS = 8_000;

/** The signal for the work on one port, directory or listing. */
export function stepSignal({ stop }: ReconcileScope): AbortSignal {
  return within(stop, STEP_MS);
}

/** As {@link stepSignal}, and reports that the pass makes progress: to be used by passes only. */
export function passSignal(scope: ReconcileScope): AbortSignal {
  scope.observer.progress();
  return stepSignal(scope);
}

/**
 * Whether work failed because of a switch that is away, which its pool's monitor logs. One that hangs is known by the
 * monitor alone: a single port may time out as well.
 */
export function isOfSwitchAway(error: unknown, { context }: ReconcileScope): boolean {
  const isTimeout = error instanceof Failure && error.code === "dataplane-timeout";
  return isSwitchAway(error) || (isTimeout && context.pools.dataplanes().some(isLoggedAway));
}

/**
 * Does something for each item. One that fails is logged, with what `fieldsOf` gives, and does not keep the others.
 * @returns how many failed
 */
export async function attemptEach<Item>(
  scope: ReconcileScope,
  items: Iterable<Item> | AsyncIterable<Item>,
  work: (item: Item) => Promise<unknown>,
  failure: { readonly message: string; readonly fieldsOf?: (item: Item) => LogFields },
): Promise<number> {
  const { observer, logger, stop } = scope;
  let failed = 0;
  for await (const item of items) {
    if (stop.aborted) break;
    try {
      await work(item);
    } catch (error) {
      failed += 1;
      observer.itemFailed(error);
      const fields = { ...failure.fieldsOf?.(item), reason: describeThrown(error) };
      logger[isOfSwitchAway(error, scope) ? "debug" : "warn"](fields, failure.message);
    }
  }
  return failed;
}

/** Is notified of what the reconciler does. Its passes never overlap. */
export interface ReconcileObserver {
  /** A pass begins. @returns to be called at its end, however it ends */
  passBegan(): () => void;
  /** The pass begins its next step. Repairs outside passes do not count: they would hide a pass that hangs. */
  progress(): void;
  /** A stage of the pass was left out. */
  stageFailed(error: unknown): void;
  /** One port, allocation or directory could not be repaired; the others are. */
  itemFailed(error: unknown): void;
  /** A recorded port was to be made, repaired or removed; by its name. */
  portTried(port: string, isSettled: boolean): void;
  /** So many that no pod holds could not be removed. */
  leftover(what: "allocation" | "port" | "directory", count: number): void;
  /** An attached port differed from its record and was repaired; `changes` has a sentence for each difference. */
  portRestored(record: PortRecord, changes: readonly string[]): void;
  /** Something was repaired. */
  repaired(
    kind:
      | "unfinished-add"
      | "late-del"
      | "missing-del"
      | "orphan-port"
      | "stray"
      | "unknown-directory"
      | "directory"
      | "device-info"
      | "port"
      | "silent-guest",
  ): void;
  /** An allocation of this pool was removed. */
  reclaimed(pool: string): void;
}
