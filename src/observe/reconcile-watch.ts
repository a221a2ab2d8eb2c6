import { toFailure } from "../failure/failure.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import type { NodeEvents } from "./events/node-events.ts";
import type { Metrics } from "./metrics.ts";
import { countError } from "./observed-calls.ts";

/** What the reconciler removes or restores; the metric's help says what each is. */
const REPAIR_KINDS = [
  "unfinished-add",
  "late-del",
  "missing-del",
  "orphan-port",
  "stray",
  "unknown-directory",
  "directory",
  "device-info",
  "port",
  "silent-guest",
] as const;

/** A kind of repair. */
export type RepairKind = (typeof REPAIR_KINDS)[number];

/** What may be left that no pod holds. */
const LEFTOVERS = ["allocation", "port", "directory"] as const;

/** What the watch over the reconciler works with. */
export interface ReconcileWatchOptions {
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Called whenever the reconciler shows that it is alive. */
  readonly onAlive: () => void;
}

/** Counts what the reconciler does; its passes never overlap. */
export class ReconcileWatch {
  readonly #options: ReconcileWatchOptions;
  readonly #unsettled = new Set<string>();
  /** Where Kubernetes events are on: hears of passes and restored ports. */
  events: Pick<NodeEvents, "passEnded" | "restored"> | undefined;
  #hasFailed = false;
  #lastOkAt: number | undefined;

  constructor(options: ReconcileWatchOptions) {
    this.#options = options;
    for (const kind of REPAIR_KINDS) options.metrics.count("vhostuser_reconcile_repairs_total", { kind }, 0);
    for (const what of LEFTOVERS) options.metrics.set("vhostuser_unreclaimed", { what }, 0);
    for (const outcome of ["ok", "failed"]) {
      options.metrics.count("vhostuser_reconcile_passes_total", { outcome }, 0);
    }
  }

  /** When a pass went through last, in milliseconds since the epoch; undefined before the first. */
  get lastOkAt(): number | undefined {
    return this.#lastOkAt;
  }

  /** A pass begins. @returns to be called at its end, however it ends */
  passBegan(): () => void {
    const { metrics, clock, onAlive } = this.#options;
    const began = performance.now();
    this.#hasFailed = false;
    onAlive();
    return () => {
      const outcome = this.#hasFailed ? "failed" : "ok";
      const seconds = (performance.now() - began) / 1000;
      metrics.count("vhostuser_reconcile_passes_total", { outcome });
      metrics.observe("vhostuser_reconcile_pass_duration_seconds", { outcome }, seconds);
      if (outcome === "ok") {
        this.#lastOkAt = clock.now();
        metrics.set("vhostuser_reconcile_last_ok_timestamp_seconds", {}, this.#lastOkAt / 1000);
      }
      onAlive();
      this.events?.passEnded();
    };
  }

  /** The pass begins its next step: a long pass is not one that hangs. */
  progress(): void {
    this.#options.onAlive();
  }

  /** A stage of the pass failed, and the pass with it. */
  stageFailed(error: unknown): void {
    this.#hasFailed = true;
    this.itemFailed(error);
  }

  /** One port, allocation or directory could not be repaired; the others are. */
  itemFailed(error: unknown): void {
    countError(this.#options.metrics, "reconcile", toFailure(error).code);
  }

  /** Names of ports that could not be settled when they were last tried; some of them may have no record any more. */
  get unsettledPorts(): ReadonlySet<string> {
    return this.#unsettled;
  }

  /** A recorded port was to be made, repaired or removed. */
  portTried(port: string, isSettled: boolean): void {
    if (isSettled) this.#unsettled.delete(port);
    else this.#unsettled.add(port);
  }

  /** A port was not as its record says, and is now. @param changes what was wrong, one sentence each */
  portRestored(record: PortRecord, changes: readonly string[]): void {
    this.events?.restored(record, changes);
  }

  /** So many of what no pod holds any more could not be removed. */
  leftover(what: (typeof LEFTOVERS)[number], count: number): void {
    this.#options.metrics.set("vhostuser_unreclaimed", { what }, count);
  }

  /** Something was repaired. */
  repaired(kind: RepairKind): void {
    this.#options.metrics.count("vhostuser_reconcile_repairs_total", { kind });
  }

  /** An allocation of this pool was removed. */
  reclaimed(pool: string): void {
    this.#options.metrics.count("vhostuser_reclaims_total", { pool });
  }
}
