import type { Pool } from "../attachment/node-context.ts";
import type { PoolConfig } from "../config/schema.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import type { KubeletPaths } from "../kubelet/paths.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import type { Allocate } from "./allocation-answer.ts";
import type { DeviceUses } from "./device-uses.ts";
import { ListedDevices } from "./listed-devices.ts";
import type { NodePools } from "./node-pools.ts";
import { type DevicePlugin, startDevicePlugin } from "./plugin.ts";
import { watchPool } from "./watch-pool.ts";

/** What the pools' plugins work with. */
export interface PoolPluginsOptions {
  readonly pools: NodePools;
  readonly kubelet: KubeletPaths;
  readonly uses: DeviceUses;
  /** Makes what answers Allocate for a pool; the pool's configuration is read anew at every call. */
  readonly allocator: (pool: () => PoolConfig) => Allocate;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The running plugin of one pool. */
interface RunningPool {
  pool: PoolConfig;
  readonly devices: ListedDevices;
  readonly plugin: DevicePlugin;
  close(): Promise<void>;
}

/**
 * Milliseconds that a new plugin waits for what the switch says before it registers: kubelet would fail a pod for good
 * that comes while the devices are not known to be healthy yet.
 */
const FIRST_LOOK_MS = 150;

/** The plugins of the configured pools, one for each resource, which come, change and go with the configuration. */
export class PoolPlugins {
  readonly #options: PoolPluginsOptions;
  /** By pool name. */
  readonly #running = new Map<string, RunningPool>();
  #turn: Promise<void> = Promise.resolve();

  constructor(options: PoolPluginsOptions) {
    this.#options = options;
  }

  /** The plugins by pool name, for what wants to know how they are. */
  get byPool(): ReadonlyMap<string, Pick<RunningPool, "devices" | "plugin">> {
    return this.#running;
  }

  /**
   * Brings the plugins to what is configured now. A pool that only changed keeps its registration; one that got
   * another resource is registered anew, and its devices that pods hold under the old one are given to nobody.
   * A later call tries again to start what failed.
   * @throws Failure naming the pools whose plugins cannot be started; those of the others run
   */
  apply(pools: readonly PoolConfig[]): Promise<void> {
    const turn = this.#turn.then(() => this.#apply(pools));
    // The next turn comes whatever became of this one, which its caller hears of.
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** Ends all plugins; kubelet then sees no healthy device. Pods keep what they have. */
  async close(): Promise<void> {
    await this.#turn;
    await this.#stop([...this.#running.keys()]);
  }

  async #apply(pools: readonly PoolConfig[]): Promise<void> {
    const configured = new Map(pools.map((pool) => [pool.name, pool]));
    // All ends come before all beginnings: two pools may have swapped their resources, and so their sockets.
    await this.#stop(
      [...this.#running.values()]
        .filter(({ pool }) => configured.get(pool.name)?.resource !== pool.resource)
        .map(({ pool }) => pool.name),
    );
    this.#options.pools.replace(pools);
    for (const [name, running] of this.#running) {
      const pool = configured.get(name);
      if (pool === undefined) continue;
      running.pool = pool;
      running.devices.reconfigure(pool);
    }
    const missing = pools.filter(({ name }) => !this.#running.has(name));
    const outcomes = await Promise.allSettled(missing.map((pool) => this.#start(pool)));
    const failed = outcomes.flatMap((outcome, index) =>
      outcome.status === "rejected" ? [{ name: missing[index]?.name, cause: toFailure(outcome.reason) }] : [],
    );
    const [first] = failed;
    if (first === undefined) return;
    throw new Failure({
      code: first.cause.code,
      what: `the device plugin cannot be started: ${failed.map(({ cause }) => cause.message).join("; ")}`,
      where: `pool ${failed.map(({ name }) => name).join(", ")}`,
      cause: failed.length === 1 ? first.cause : new AggregateError(failed.map(({ cause }) => cause)),
    });
  }

  async #stop(names: readonly string[]): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        const running = this.#running.get(name);
        this.#running.delete(name);
        await running?.close();
      }),
    );
  }

  async #start(pool: PoolConfig): Promise<void> {
    const { pools, kubelet, uses, allocator, clock, logger } = this.#options;
    const started = pools.byName.get(pool.name);
    if (started === undefined) return;
    const devices = new ListedDevices({ pool, uses });
    let known: Pool = started;
    // What the node has, which may be another switch than the one that is configured, until that can be changed.
    const current = () => {
      known = pools.byName.get(pool.name) ?? known;
      return known;
    };
    const configured = () => current().config;
    const watch = this.#watch(current, devices);
    try {
      await watch.firstLook;
      const { resource } = pool;
      const allocate = allocator(configured);
      const plugin = startDevicePlugin({ resource, kubelet, devices, allocate, clock, logger });
      const close = async () => {
        await Promise.all([plugin.close(), watch.close()]);
        devices.close();
      };
      this.#running.set(pool.name, { pool, devices, plugin, close });
    } catch (error) {
      await watch.close();
      devices.close();
      throw error;
    }
  }

  #watch(current: () => Pool, devices: ListedDevices) {
    const { clock, logger } = this.#options;
    const stop = new AbortController();
    const looked = Promise.withResolvers<void>();
    const over = watchPool({
      pool: () => current().config,
      // Read at every look.
      get dataplane() {
        return current().dataplane;
      },
      onLook: (state) => {
        devices.update(state);
        looked.resolve();
      },
      clock,
      logger,
      signal: stop.signal,
    });
    return {
      firstLook: Promise.race([
        looked.promise,
        clock.sleep(FIRST_LOOK_MS, stop.signal).catch(() => undefined),
      ]),
      close: async () => {
        stop.abort();
        await over;
      },
    };
  }
}
