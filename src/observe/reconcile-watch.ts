import { toFailure } from "../failure/failure.ts";
import type { ReconcileObserver } from "../reconcile/reconcile-pass.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import type { NodeEvents } from "./events/node-events.ts";
import type { Metrics } from "./metrics.ts";
import { countError } from "./observed-calls.ts";
import type { Check } from "./probes.ts";

type RepairKind = Parameters<ReconcileObserver["repaired"]>[0];
type Leftover = Parameters<ReconcileObserver["leftover"]>[0];

const REPAIR_KINDS: readonly RepairKind[] = [
  ...(["unfinished-add", "late-del", "missing-del", "orphan-port", "stray"] as const),
  ...(["unknown-directory", "directory", "device-info", "port", "silent-guest"] as const),
];
const LEFTOVERS: readonly Leftover[] = ["allocation", "port", "directory"];

/** Counts what the reconciler does, and passes on what makes Kubernetes events. */
export class ReconcileWatch implements ReconcileObserver {
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #unsettled = new Set<string>();
  #hasFailed = false;
  #lastOkAt: number | undefined;
  #progressedAtMs: number;
  /** Where events are posted. */
  events: Pick<NodeEvents, "passEnded" | "restored"> | undefined;

  constructor(metrics: Metrics, clock: Clock) {
    this.#metrics = metrics;
    this.#clock = clock;
    this.#progressedAtMs = clock.monotonic();
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

  /** Fails when the reconciler has made no progress for so long: it hangs, and only a restart helps. */
  check(maxSilenceMs: number): Check {
    const problem = () => {
      const silentMs = this.#clock.monotonic() - this.#progressedAtMs;
      if (silentMs <= maxSilenceMs) return undefined;
      return `no progress for ${Math.round(silentMs / 1000)} s, ${Math.round(maxSilenceMs / 1000)} s are allowed`;
    };
    return { name: "reconciler", problem };
  }

  passBegan(): () => void {
    const metrics = this.#metrics;
    const began = performance.now();
    this.#hasFailed = false;
    this.progress();
    return () => {
      const outcome = this.#hasFailed ? "failed" : "ok";
      const seconds = (performance.now() - began) / 1000;
      metrics.count("vhostuser_reconcile_passes_total", { outcome });
      metrics.observe("vhostuser_reconcile_pass_duration_seconds", { outcome }, seconds);
      if (outcome === "ok") {
        this.#lastOkAt = this.#clock.now();
        metrics.set("vhostuser_reconcile_last_ok_timestamp_seconds", {}, this.#lastOkAt / 1000);
      }
      this.progress();
      this.events?.passEnded();
    };
  }

  progress(): void {
    this.#progressedAtMs = this.#clock.monotonic();
  }

  stageFailed(error: unknown): void {
    this.#hasFailed = true;
    this.itemFailed(error);
  }

  itemFailed(error: unknown): void {
    countError(this.#metrics, "reconcile", toFailure(error).code);
  }

  portTried(port: string, isSettled: boolean): void {
    if (isSettled) this.#unsettled.delete(port);
    else this.#unsettled.add(port);
  }

  portRestored(record: PortRecord, changes: readonly string[]): void {
    this.events?.restored(record, changes);
  }

  leftover(what: Leftover, count: number): void {
    this.#metrics.set("vhostuser_unreclaimed", { what }, count);
  }

  repaired(kind: RepairKind): void {
    this.#metrics.count("vhostuser_reconcile_repairs_total", { kind });
  }

  reclaimed(pool: string): void {
    this.#metrics.count("vhostuser_reclaims_total", { pool });
  }
}
