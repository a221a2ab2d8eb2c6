import { isDeepStrictEqual } from "node:util";
import type { DaemonConfig, PoolConfig } from "./schema.ts";

/** What a new configuration leads to. */
export interface ReloadPlan {
  /** What to run with: the new configuration, but with the old value of every key in {@link ReloadPlan.waiting}. */
  readonly config: DaemonConfig;
  /** Names of pools that are new, gone, or not as they were. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Keys whose new value counts only after a restart, for example `root` or `pools.sockets.dataplane.database`. */
  readonly waiting: readonly string[];
}

/** Top-level keys that take effect at once; all others are where things are, and stand until a restart. */
const LIVE_KEYS: ReadonlySet<string> = new Set<keyof DaemonConfig>([
  "pools",
  "reclaim",
  "announce",
  "reconnectSilentAfterSeconds",
]);

/** Of a pool's dataplane only this can change while pods have ports in it; the others say which switch it is. */
const LIVE_DATAPLANE_KEY = "bridge" satisfies keyof PoolConfig["dataplane"];

/**
 * Whether a new value of a key takes effect while the daemon runs.
 * @param key as docs/configuration.md writes it, for example `reclaim.graceSeconds` or `pools[].dataplane.bridge`
 */
export function takesEffectAtOnce(key: string): boolean {
  const [top = "", second] = key.split(".");
  const isSwitch = top === "pools[]" && second === "dataplane" && !key.endsWith(`.${LIVE_DATAPLANE_KEY}`);
  return LIVE_KEYS.has(top.replace("[]", "")) && !isSwitch;
}

/**
 * Decides what of a new, valid configuration takes effect at once. A pool's switch cannot change under its pods:
 * their ports are in the old one.
 */
export function planReload(current: DaemonConfig, next: DaemonConfig): ReloadPlan {
  const keys = [...new Set([...Object.keys(current), ...Object.keys(next)])] as (keyof DaemonConfig)[];
  const held = keys.filter((key) => !LIVE_KEYS.has(key) && !isDeepStrictEqual(current[key], next[key]));
  const before = new Map(current.pools.map((pool) => [pool.name, pool]));
  const merged = next.pools.map((pool) => mergePool(before.get(pool.name), pool));
  const after = new Map(merged.map(({ pool }) => [pool.name, pool]));
  return {
    config: Object.freeze({
      ...withValuesOf(current, held, next),
      pools: merged.map(({ pool }) => pool),
    }),
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].flatMap(([name, pool]) => {
      const old = before.get(name);
      return old === undefined || isDeepStrictEqual(old, pool) ? [] : [name];
    }),
    waiting: [...held, ...merged.flatMap(({ waiting }) => waiting)],
  };
}

/** `next`, but with the values that `current` has under some keys, or without these where it has none. */
function withValuesOf(
  current: DaemonConfig,
  keys: readonly (keyof DaemonConfig)[],
  next: DaemonConfig,
): DaemonConfig {
  const entries = new Map<string, unknown>(Object.entries(next));
  for (const key of keys) {
    if (current[key] === undefined) entries.delete(key);
    else entries.set(key, current[key]);
  }
  return Object.fromEntries(entries) as DaemonConfig;
}

function mergePool(
  before: PoolConfig | undefined,
  next: PoolConfig,
): { readonly pool: PoolConfig; readonly waiting: readonly string[] } {
  if (before === undefined) return { pool: next, waiting: [] };
  const { [LIVE_DATAPLANE_KEY]: _, ...switchBefore } = before.dataplane;
  const { [LIVE_DATAPLANE_KEY]: bridge, ...switchNext } = next.dataplane;
  if (isDeepStrictEqual(switchBefore, switchNext)) return { pool: next, waiting: [] };
  const differing = (Object.keys({ ...switchBefore, ...switchNext }) as (keyof typeof switchNext)[]).filter(
    (key) => switchBefore[key] !== switchNext[key],
  );
  const { switchSockets, ...pool } = next;
  const socketsDiffer = before.switchSockets !== switchSockets;
  return {
    pool: {
      ...pool,
      dataplane: { ...switchBefore, bridge },
      // They are of the other switch.
      ...(before.switchSockets === undefined ? {} : { switchSockets: before.switchSockets }),
    },
    waiting: [
      ...differing.map((key) => `pools.${next.name}.dataplane.${key}`),
      ...(socketsDiffer ? [`pools.${next.name}.switchSockets`] : []),
    ],
  };
}
