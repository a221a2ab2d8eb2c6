import type { Clock } from "../clock/clock.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { Logger } from "../logging/logger.ts";
import type { PoolDevices } from "./pool-devices.ts";

/** What the watch over one pool's switch works with. */
export interface PoolHealthOptions {
  readonly pool: PoolConfig;
  readonly devices: PoolDevices;
  readonly dataplane: Dataplane;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const INTERVAL_MS = 2_000;
const PROBE_MS = 5_000;
/** A restarting switch is away for a look or two; pods that come in that time wait in ADD instead. */
const FAILURES_UNTIL_UNHEALTHY = 3;

/** Keeps a pool's devices healthy while its switch answers and its bridge is there, until the signal fires. */
export async function watchPoolHealth(options: PoolHealthOptions): Promise<void> {
  const { pool, devices, dataplane, clock, logger, signal } = options;
  let failures = FAILURES_UNTIL_UNHEALTHY;
  let said: string | undefined;
  while (!signal.aborted) {
    const readiness = await dataplane.probe(
      pool.dataplane.bridge,
      AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]),
    );
    failures = readiness.ready ? 0 : failures + 1;
    const reason = readiness.ready ? "ready" : readiness.reason;
    if (reason !== said && !signal.aborted) {
      logger[readiness.ready ? "info" : "warn"]({ pool: pool.name, reason }, "the pool's switch");
      said = reason;
    }
    if (failures === 0 || failures >= FAILURES_UNTIL_UNHEALTHY) devices.setHealthy(failures === 0);
    await clock.sleep(INTERVAL_MS, signal).catch(() => undefined);
  }
}
