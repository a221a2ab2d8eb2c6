import { toFailure } from "../failure/failure.ts";
import type { ReconcileObserver } from "../reconcile/reconcile-pass.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import type { NodeEvents } from "./events/node-events.ts";
import type { Metrics } from "./metrics.ts";
import { countError } from "./observed-calls.ts";

type RepairKind = Parameters<ReconcileObserver["repaired"]>[0];
type Leftover = Parameters<ReconcileObserver["leftover"]>[0];

const REPAIR_KINDS: readonly RepairKind[] = [
  ...(["unfinished-add", "late-del", "missing-del", "orphan-port", "stray"] as const),
  ...(["unknown-directory", "directory", "device-info", "port", "silent-guest"] as const),
];
const LEFTOVERS: readonly Leftover[] = ["allocation", "port", "directory"];

/** What the watch over the reconciler works with. */
export interface ReconcileWatchOptions {
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Called whenever the reconciler makes progress. */
  readonly onAlive: () => void;
}

/** Counts what the reconciler does, and passes on what makes Kubernetes events. */
export class ReconcileWatch implements ReconcileObserver {
  readonly #options: ReconcileWatchOptions;
  readonly #unsettled = new Set<string>();
  #hasFailed = false;
  #lastOkAt: number | undefined;
  /** Where events are posted. */
  events: Pick<NodeEvents, "passEnded" | "restored"> | undefined;

  constructor(options: ReconcileWatchOptions) {
    this.#options = options;
    const { metrics } = options;
    for (const kind of REPAIR_KINDS) metrics.count("vhostuser_reconcile_repairs_total", { kind }, 0);
    for (const what of LEFTOVERS) metrics.set("vhostuser_unreclaimed", { what }, 0);
    for (const outcome of ["ok", "failed"]) metrics.count("vhostuser_reconcile_passes_total", { outcome }, 0);
  }

  /** When a pass last succeeded, in milliseconds since the epoch; undefined before the first. */
  get lastOkAt(): number | undefined {
    return this.#lastOkAt;
  }

  /** Names of ports that could not be settled when they were last tried; some may have no record any more. */
  get unsettledPorts(): ReadonlySet<string> {
    return this.#unsettled;
  }

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

  progress(): void {
    this.#options.onAlive();
  }

  stageFailed(error: unknown): void {
    this.#hasFailed = true;
    this.itemFailed(error);
  }

  itemFailed(error: unknown): void {
    countError(this.#options.metrics, "reconcile", toFailure(error).code);
  }

  portTried(port: string, isSettled: boolean): void {
    if (isSettled) this.#unsettled.delete(port);
    else this.#unsettled.add(port);
  }

  portRestored(record: PortRecord, changes: readonly string[]): void {
    this.events?.restored(record, changes);
  }

  leftover(what: Leftover, count: number): void {
    this.#options.metrics.set("vhostuser_unreclaimed", { what }, count);
  }

  repaired(kind: RepairKind): void {
    this.#options.metrics.count("vhostuser_reconcile_repairs_total", { kind });
  }

  reclaimed(pool: string): void {
    this.#options.metrics.count("vhostuser_reclaims_total", { pool });
  }
}
