// The plugins of the configured pools, one for each resource.
import type { KubeletPaths } from "../kubelet/paths.ts";
import type { Logger } from "../logging/logger.ts";
import type { DeviceUses } from "../pools/capacity.ts";
import { monitorPool } from "../pools/pool-monitor.ts";
import type { Pool } from "../pools/pools.ts";
import type { Clock } from "../sync/clock.ts";
import type { Allocate } from "./allocate.ts";
import { type DevicePlugin, startDevicePlugin } from "./plugin.ts";
import { PoolDevices } from "./pool-devices.ts";

/** What a pool's plugin works with. */
export interface PoolPluginOptions {
  readonly pool: Pool;
  readonly kubelet: KubeletPaths;
  readonly uses: DeviceUses;
  readonly allocate: Allocate;
  /** Why no pod can use a socket of this node now, whatever the switch says. */
  readonly rootProblem: () => Promise<string | undefined>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The running plugin of one pool. */
export interface PoolPlugin {
  readonly pool: Pool;
  readonly devices: PoolDevices;
  readonly plugin: DevicePlugin;
  /** kubelet then sees no healthy device. Pods keep what they have. */
  close(): Promise<void>;
}

/**
 * Milliseconds that a new plugin waits for the first probe of the switch before it registers: kubelet fails for good
 * a pod that comes while the devices are not known to be healthy yet.
 */
const FIRST_PROBE_MS = 150;

/**
 * Probes a pool's switch and reports its devices to kubelet.
 * @throws Failure path-too-long or directory-unsafe, when the plugin's socket cannot be used
 */
export async function startPoolPlugin(options: PoolPluginOptions): Promise<PoolPlugin> {
  const { pool, kubelet, uses, allocate, rootProblem, clock, logger } = options;
  await using undo = new AsyncDisposableStack();
  const devices = new PoolDevices(pool.config, uses);
  const probed = Promise.withResolvers<void>();
  const monitor = monitorPool({
    ...{ pool, rootProblem },
    onProbed: (state) => {
      devices.update(state);
      probed.resolve();
    },
    clock,
    logger,
  });
  undo.defer(() => monitor.close());
  const waited = new AbortController();
  await Promise.race([probed.promise, clock.sleep(FIRST_PROBE_MS, waited.signal).catch(() => undefined)]);
  waited.abort();
  const plugin = startDevicePlugin({
    ...{ resource: pool.config.resource, kubelet, devices, allocate, clock, logger },
  });
  undo.defer(() => plugin.close());
  const running = undo.move();
  return { pool, devices, plugin, close: () => running.disposeAsync() };
}
