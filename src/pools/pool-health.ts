/** How patient the judgement is. */
export interface HealthRules {
  /** So many probes in a row must have failed… */
  readonly failures: number;
  /** …over at least this many milliseconds, until healthy devices become unhealthy. */
  readonly failingMs: number;
  /** So many probes in a row must have gone well until unhealthy devices become healthy again. */
  readonly successes: number;
}

/**
 * A restart of ovs-vswitchd with DPDK takes up to some ten seconds, and a pod that comes in that time waits in CNI
 * ADD; kubelet, told at once, would fail it for good. The way back asks for three good probes, because a switch
 * that dies again and again answers between two deaths.
 */
export const HEALTH_RULES: HealthRules = { failures: 3, failingMs: 10_000, successes: 3 };

/** What is known of a pool's switch. */
export interface PoolHealth {
  /** `unproven` until the switch has answered once: unhealthy, but without a past that asks for patience. */
  readonly verdict: "unproven" | "healthy" | "unhealthy";
  /** How the latest probes in a row went. */
  readonly ready: boolean;
  /** How many they are. */
  readonly probes: number;
  /** When the first of them was, in milliseconds of a clock that is never set. */
  readonly sinceMs: number;
}

/** Nothing is known yet. */
export const UNPROVEN: PoolHealth = { verdict: "unproven", ready: false, probes: 0, sinceMs: 0 };

/** Judges by one more probe. Pure: the same probes give the same verdict. */
export function judgeHealth(
  health: PoolHealth,
  probe: { readonly ready: boolean; readonly atMs: number },
  rules: HealthRules = HEALTH_RULES,
): PoolHealth {
  const goesOn = health.probes > 0 && probe.ready === health.ready;
  const run = {
    ready: probe.ready,
    probes: goesOn ? health.probes + 1 : 1,
    sinceMs: goesOn ? health.sinceMs : probe.atMs,
  };
  return { ...run, verdict: verdict(health.verdict, run, probe.atMs - run.sinceMs, rules) };
}

function verdict(
  before: PoolHealth["verdict"],
  run: Pick<PoolHealth, "ready" | "probes">,
  lastedMs: number,
  rules: HealthRules,
): PoolHealth["verdict"] {
  switch (before) {
    case "unproven":
      return run.ready ? "healthy" : "unproven";
    case "healthy":
      return !run.ready && run.probes >= rules.failures && lastedMs >= rules.failingMs
        ? "unhealthy"
        : "healthy";
    case "unhealthy":
      return run.ready && run.probes >= rules.successes ? "healthy" : "unhealthy";
  }
}
