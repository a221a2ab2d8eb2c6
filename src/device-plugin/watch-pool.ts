import type { PoolConfig } from "../config/schema.ts";
import type { Dataplane, Readiness } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import type { PoolState } from "./listed-devices.ts";
import { judgeHealth, type PoolHealth, UNPROVEN } from "./pool-health.ts";

/** What the watch over one pool's switch works with. */
export interface PoolWatchOptions {
  /** The pool as it is configured now. */
  readonly pool: () => PoolConfig;
  readonly dataplane: Dataplane;
  /** Hears what the switch says after every look, also when it says the same. */
  readonly onLook: (state: PoolState) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Milliseconds from one look to the next, so that {@link HEALTH_RULES} have their probes. */
const INTERVAL_MS = 2_000;
/** The same while all is well: a probe is most of what an idle daemon does. */
const CALM_INTERVAL_MS = 4_000;
/** A switch that takes longer to answer does not answer. */
const PROBE_MS = 5_000;
/** Uplinks are added and removed by hand; this is soon enough to see it. */
const NUMA_INTERVAL_MS = 60_000;

/** Looks after a pool's switch until the signal fires: whether it answers and has the bridge, and where it is near to. */
export async function watchPool(options: PoolWatchOptions): Promise<void> {
  const { clock, logger, signal, onLook } = options;
  let watched: { readonly dataplane: Dataplane; readonly bridge: string } | undefined;
  let health: PoolHealth = UNPROVEN;
  let numa = new NumaNode(options);
  let said: string | undefined;
  while (!signal.aborted) {
    const pool = options.pool();
    const { dataplane } = options;
    const { bridge } = pool.dataplane;
    if (watched?.dataplane !== dataplane || watched.bridge !== bridge) {
      // Another bridge's past, or another switch's, tells nothing of this one.
      watched = { dataplane, bridge };
      health = UNPROVEN;
      numa = new NumaNode(options);
    }
    const readiness = await look(pool, options);
    const { verdict } = health;
    health = judgeHealth(health, { ready: readiness.ready, atMs: clock.now() });
    const numaNodes = await numa.nodes(pool, readiness.ready);
    if (signal.aborted) return;
    const reason = readiness.ready ? "ready" : readiness.reason;
    if (reason !== said) {
      logger[readiness.ready ? "info" : "warn"]({ pool: pool.name, reason }, "the pool's switch");
      said = reason;
    }
    if (health.verdict !== verdict) {
      logger[health.verdict === "healthy" ? "info" : "warn"](
        { pool: pool.name, state: health.verdict },
        "the pool's devices",
      );
    }
    onLook({ healthy: health.verdict === "healthy", numaNodes });
    // Rejects only when the watch is being ended.
    const isCalm = health.verdict === "healthy" && health.ready;
    await clock.sleep(isCalm ? CALM_INTERVAL_MS : INTERVAL_MS, signal).catch(() => undefined);
  }
}

async function look(pool: PoolConfig, { dataplane, signal }: PoolWatchOptions): Promise<Readiness> {
  const limit = within(signal, PROBE_MS);
  try {
    return await dataplane.probe(pool.dataplane.bridge, limit);
  } catch (error) {
    return { ready: false, reason: describeThrown(error) };
  }
}

/** The NUMA node of a pool, as configured or as the switch says. */
class NumaNode {
  readonly #options: PoolWatchOptions;
  #known: readonly number[] = [];
  #lookedAt: number | undefined;

  constructor(options: PoolWatchOptions) {
    this.#options = options;
  }

  async nodes(pool: PoolConfig, isReady: boolean): Promise<readonly number[]> {
    if (pool.numaNode === "none") return [];
    if (pool.numaNode !== "auto") return [pool.numaNode];
    const now = this.#options.clock.now();
    // A switch that was away may come back with other uplinks.
    if (!isReady) this.#lookedAt = undefined;
    else if (this.#lookedAt === undefined || Math.abs(now - this.#lookedAt) >= NUMA_INTERVAL_MS) {
      await this.#ask(pool, now);
    }
    return this.#known;
  }

  /** One that cannot be told now stays what it was, lest the devices lose their affinity for a moment. */
  async #ask(pool: PoolConfig, now: number): Promise<void> {
    const { dataplane, signal, logger } = this.#options;
    const limit = within(signal, PROBE_MS);
    try {
      const node = await dataplane.numaNode(pool.dataplane.bridge, limit);
      this.#lookedAt = now;
      const known = node === undefined ? [] : [node];
      if (known.join() !== this.#known.join()) {
        logger.info({ pool: pool.name, numaNode: node }, "NUMA node of the pool's uplinks");
      }
      this.#known = known;
    } catch (error) {
      logger.debug({ pool: pool.name, reason: describeThrown(error) }, "the NUMA node is not known yet");
    }
  }
}
