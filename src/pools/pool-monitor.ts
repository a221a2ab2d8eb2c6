// Whether a pool's switch answers, and what hardware is behind its bridge.
import { isDeepStrictEqual } from "node:util";
import type { Dataplane, Readiness } from "../dataplane/dataplane.ts";
import type { Uplink } from "../dataplane/uplink.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import { judgeHealth, type PoolHealth, UNPROVEN } from "./pool-health.ts";
import type { Pool } from "./pools.ts";

/** What a pool's switch says of all its devices. */
export interface PoolState {
  readonly healthy: boolean;
  /** The hardware behind the bridge; the NUMA node is the configured one, if one is. */
  readonly uplink: Uplink;
}

/** What a pool is monitored with. */
export interface PoolMonitorOptions {
  readonly pool: Pool;
  /** Why no pod can use a socket of this node now, whatever the switch says. */
  readonly rootProblem?: () => Promise<string | undefined>;
  /** Called after every probe, also when nothing changed. */
  readonly onProbed: (state: PoolState) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A pool's running probes. */
export interface PoolMonitor {
  close(): Promise<void>;
}

/** Milliseconds between probes while the switch fails, so that the health rules get enough probes. */
const INTERVAL_MS = 2_000;
/** The same while the switch is healthy: probes are most of an idle daemon's work. */
const CALM_INTERVAL_MS = 4_000;
/** A switch that takes longer to answer counts as not ready. */
const PROBE_MS = 5_000;
/** Uplinks are added and removed by hand; this is soon enough to see it. */
const UPLINK_INTERVAL_MS = 60_000;

/** Probes a pool's switch until it is closed. */
export function monitorPool(options: PoolMonitorOptions): PoolMonitor {
  const stop = new AbortController();
  const probing = probeUntil(options, stop.signal);
  return {
    close: async () => {
      stop.abort();
      await probing;
    },
  };
}

async function probeUntil(options: PoolMonitorOptions, signal: AbortSignal) {
  const { pool, onProbed, clock, logger } = options;
  const uplink = uplinkReader({ pool, clock, logger });
  const log = stateLog(pool, logger);
  let health: PoolHealth = UNPROVEN;
  while (!signal.aborted) {
    const readiness = await probe(options, signal);
    health = judgeHealth(health, { ready: readiness.ready, atMs: clock.monotonic() });
    const state = { healthy: health.verdict === "healthy", uplink: await uplink(readiness, signal) };
    if (signal.aborted) return;
    if (state.healthy === readiness.ready) log(readiness);
    onProbed(state);
    // Rejects only when the monitor is closed.
    const ms = state.healthy && health.ready ? CALM_INTERVAL_MS : INTERVAL_MS;
    await clock.sleep(ms, signal).catch(() => undefined);
  }
}

/** What was last logged of each switch. */
const switchStates = new WeakMap<Dataplane, string>();
/** Codes of a switch that is away; what follows them may differ from one attempt to the next. */
const AWAY: ReadonlySet<string> = new Set(["dataplane-unavailable", "dataplane-timeout"]);

/** Whether it was logged that a switch does not answer, and not yet that it does again. */
export function isLoggedAway(dataplane: Dataplane): boolean {
  return AWAY.has(switchStates.get(dataplane) ?? "");
}

/**
 * Logs a pool's state when it changes. A switch that goes or comes back is one line for all of its pools.
 */
function stateLog({ config, dataplane }: Pool, logger: Logger): (readiness: Readiness) => void {
  const pool = config.name;
  let logged: string | undefined;
  return (readiness) => {
    const reason = readiness.ready ? (readiness.limitations ?? []).join("; ") : readiness.reason;
    const [code = ""] = reason.split(":");
    const state = readiness.ready ? `ready ${reason}` : AWAY.has(code) ? code : reason;
    if (state === logged) return;
    logged = state;
    if (switchStates.get(dataplane) === state) return;
    switchStates.set(dataplane, state);
    if (!readiness.ready) logger.warn({ pool, reason }, "pool switch is not ready");
    else if (reason === "") logger.info({ pool }, "pool switch is ready");
    else logger.warn({ pool, reason }, "pool switch is ready, but lacks features");
  };
}

async function probe(
  { pool: { config, dataplane }, rootProblem }: PoolMonitorOptions,
  signal: AbortSignal,
): Promise<Readiness> {
  try {
    const reason = await rootProblem?.();
    if (reason !== undefined) return { ready: false, reason };
    return await dataplane.probe(config.dataplane.bridge, within(signal, PROBE_MS));
  } catch (error) {
    return { ready: false, reason: describeThrown(error) };
  }
}

/**
 * Reads what is behind a pool's bridge, with the configured NUMA node. What the switch cannot say now stays as it was; a
 * switch that nothing of it is needed of is not asked.
 */
function uplinkReader({ pool, clock, logger }: Omit<PoolMonitorOptions, "onProbed">) {
  const { name, numaNode, claims, dataplane } = pool.config;
  const isNeeded = numaNode === "auto" || claims !== undefined;
  const configured = (found: Uplink): Uplink =>
    numaNode === "auto" ? found : present({ ...found, numaNode: numaNode === "none" ? undefined : numaNode });
  let known = configured({});
  let readAt: number | undefined;
  return async ({ ready }: Readiness, signal: AbortSignal): Promise<Uplink> => {
    if (!isNeeded) return known;
    // A switch that was unreachable may come back with other uplinks.
    if (!ready) readAt = undefined;
    const now = clock.monotonic();
    if (!ready || (readAt !== undefined && now - readAt < UPLINK_INTERVAL_MS)) return known;
    try {
      const found = configured(await pool.dataplane.uplink(dataplane.bridge, within(signal, PROBE_MS)));
      readAt = now;
      if (isDeepStrictEqual(found, known)) return known;
      known = found;
      logger.info({ pool: name, uplink: found }, "the uplinks of the pool's bridge changed");
    } catch (error) {
      logger.debug(
        { pool: name, reason: describeThrown(error) },
        "the uplinks of the pool's bridge are not known yet",
      );
    }
    return known;
  };
}
