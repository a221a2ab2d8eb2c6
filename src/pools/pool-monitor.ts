// Whether a pool's switch answers, and which NUMA node its hardware is near to.
import type { Readiness } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import { judgeHealth, type PoolHealth, UNPROVEN } from "./pool-health.ts";
import type { Pool } from "./pools.ts";

/** What a pool's switch says of all its devices. */
export interface PoolState {
  readonly healthy: boolean;
  /** NUMA nodes of the hardware behind the bridge; empty for no affinity. */
  readonly numaNodes: readonly number[];
}

/** What a pool is monitored with. */
export interface PoolMonitorOptions {
  readonly pool: Pool;
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
const NUMA_INTERVAL_MS = 60_000;

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

async function probeUntil({ pool, onProbed, clock, logger }: PoolMonitorOptions, signal: AbortSignal) {
  const { name } = pool.config;
  const numaNodes = numaReader({ pool, clock, logger });
  let health: PoolHealth = UNPROVEN;
  let logged: string | undefined;
  while (!signal.aborted) {
    const readiness = await probe(pool, signal);
    const { verdict } = health;
    health = judgeHealth(health, { ready: readiness.ready, atMs: clock.monotonic() });
    const state = { healthy: health.verdict === "healthy", numaNodes: await numaNodes(readiness, signal) };
    if (signal.aborted) return;
    const reason = readiness.ready ? "ready" : readiness.reason;
    if (reason !== logged) {
      logged = reason;
      if (readiness.ready) logger.info({ pool: name }, "pool switch is ready");
      else logger.warn({ pool: name, reason }, "pool switch is not ready");
    }
    if (health.verdict !== verdict) {
      logger[state.healthy ? "info" : "warn"]({ pool: name, state: health.verdict }, "pool health changed");
    }
    onProbed(state);
    // Rejects only when the monitor is closed.
    const ms = state.healthy && health.ready ? CALM_INTERVAL_MS : INTERVAL_MS;
    await clock.sleep(ms, signal).catch(() => undefined);
  }
}

async function probe({ config, dataplane }: Pool, signal: AbortSignal): Promise<Readiness> {
  try {
    return await dataplane.probe(config.dataplane.bridge, within(signal, PROBE_MS));
  } catch (error) {
    return { ready: false, reason: describeThrown(error) };
  }
}

/** Reads a pool's NUMA nodes, as configured or as the switch says. What the switch cannot say now stays as it was. */
function numaReader({ pool, clock, logger }: Omit<PoolMonitorOptions, "onProbed">) {
  const { name, numaNode, dataplane } = pool.config;
  let known: readonly number[] = typeof numaNode === "number" ? [numaNode] : [];
  let readAt: number | undefined;
  return async ({ ready }: Readiness, signal: AbortSignal): Promise<readonly number[]> => {
    if (numaNode !== "auto") return known;
    // A switch that was unreachable may come back with other uplinks.
    if (!ready) readAt = undefined;
    const now = clock.monotonic();
    if (!ready || (readAt !== undefined && now - readAt < NUMA_INTERVAL_MS)) return known;
    try {
      const node = await pool.dataplane.numaNode(dataplane.bridge, within(signal, PROBE_MS));
      readAt = now;
      const found = node === undefined ? [] : [node];
      if (found.join() === known.join()) return known;
      known = found;
      logger.info({ pool: name, numaNode: node }, "NUMA node of the pool's uplinks changed");
    } catch (error) {
      logger.debug({ pool: name, reason: describeThrown(error) }, "NUMA node is not known yet");
    }
    return known;
  };
}
