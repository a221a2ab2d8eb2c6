/**
 * A restart of ovs-vswitchd with DPDK takes up to some ten seconds, and a pod that comes in that time has its CNI
 * ADD repeated; reported at once, kubelet would fail it for good. The way back needs three good probes, because a switch
 * that crashes in a loop answers between two crashes.
 */
export const HEALTH_RULES = {
  /** So many probes in a row must have failed… */
  failures: 3,
  /** …over at least this many milliseconds, until healthy devices become unhealthy. */
  failingMs: 10_000,
  /** So many probes in a row must have succeeded until unhealthy devices become healthy again. */
  successes: 3,
} as const;

/** What is known of a pool's switch. */
export interface PoolHealth {
  /** `unproven` until the switch has answered once: unhealthy, but one good probe is enough. */
  readonly verdict: "unproven" | "healthy" | "unhealthy";
  /** Result of the latest probes in a row. */
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
  { verdict: before, ...run }: PoolHealth,
  { ready, atMs }: { readonly ready: boolean; readonly atMs: number },
): PoolHealth {
  const { failures, failingMs, successes } = HEALTH_RULES;
  const isSame = run.probes > 0 && ready === run.ready;
  const probes = isSame ? run.probes + 1 : 1;
  const sinceMs = isSame ? run.sinceMs : atMs;
  const isLost = !ready && probes >= failures && atMs - sinceMs >= failingMs;
  const isBack = ready && (before === "unproven" || probes >= successes);
  const otherwise = before === "healthy" && isLost ? "unhealthy" : before;
  return { verdict: before !== "healthy" && isBack ? "healthy" : otherwise, ready, probes, sinceMs };
}
