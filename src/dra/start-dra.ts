// The DRA driver from top to bottom: every part in the order in which it starts.
import type { NodeContext } from "../attachment/node-context.ts";
import type { PoolPlugin } from "../device-plugin/pool-plugins.ts";
import { executePluginsOf } from "../ipam/execute-plugin.ts";
import { type ApiServerPlace, openKubeApiIfAny } from "../kube-api/open-api.ts";
import { startDraPlugin } from "../kubelet/dra-plugin.ts";
import type { DraCalls } from "../kubelet/dra-service.ts";
import type { Logger } from "../logging/logger.ts";
import { type DeviceUses, splitCapacity } from "../pools/capacity.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import { claimDirectories, labelMetadata, restoreClaimFiles } from "./claim-files.ts";
import { ClaimStatusWriter } from "./claim-status.ts";
import { DRA_DRIVER, type DraContext } from "./dra-context.ts";
import { deviceHealth, type OfferedPool, planSliceDevices, poolOfDevice } from "./inventory.ts";
import { prepareClaim } from "./prepare.ts";
import { SlicePublisher } from "./resource-slices.ts";
import { releaseLeftAddresses, unprepareClaim } from "./unprepare.ts";

/** What the driver is started with. */
export interface StartDraOptions {
  readonly node: NodeContext;
  /** Those of CNI and the reconciler. */
  readonly locks: KeyedMutex;
  readonly pools: readonly Pick<PoolPlugin, "pool" | "devices">[];
  readonly uses: DeviceUses;
  /** Counts kubelet's calls. */
  readonly observe: (calls: DraCalls) => DraCalls;
  readonly apiServer: ApiServerPlace | undefined;
  /** UID of the daemon's pod, where it runs in one. */
  readonly podUid: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The driver while it runs, as metrics show it beside the device plugins. */
export interface RunningDra {
  readonly resource: string;
  readonly registered: boolean;
  readonly registrations: number;
  /** Writes again what is missing of the files of prepared claims, and releases addresses of those that are gone. */
  repairClaims(): Promise<void>;
  /** Slices stay, and pods keep what they have. */
  close(): Promise<void>;
}

/**
 * Serves claims. Without an API server or a token it logs that and returns undefined: the device plugin serves its pods
 * without either.
 * @throws Failure path-too-long or directory-unsafe, when a socket of the driver cannot be used; label-refused
 */
export async function startDra(options: StartDraOptions): Promise<RunningDra | undefined> {
  const { node, locks, pools, uses, observe, apiServer, podUid, clock, logger } = options;
  const { config } = node;
  const opened = openKubeApiIfAny("dra", config.dra, apiServer, (reason) =>
    logger.error({ reason }, "ResourceClaims are not served"),
  );
  if (opened === undefined) return undefined;
  const { url, api } = opened;
  const status = new ClaimStatusWriter({ api, clock, logger });
  const { cdiDirectory, pluginDirectory } = claimDirectories(config);
  const { ipamPlugins } = config.dra;
  const context: DraContext = {
    ...{ node, places: config, locks, api, pluginDirectory, clock, logger },
    poolOf: (device) => poolOfDevice(node.pools.configured, device),
    report: (report) => status.report(report),
    cdiDirectory,
    ipam: ipamPlugins === undefined ? undefined : executePluginsOf(ipamPlugins),
  };
  const offered = () => pools.flatMap((one) => offeredPool(one, uses) ?? []);
  let isShared = true;
  const [label] = config.pools.flatMap(({ claims, directory }) =>
    claims === undefined || directory.selinuxLabel === undefined ? [] : directory.selinuxLabel,
  );
  if (label !== undefined) await labelMetadata(context, label);
  // After a reboot no CDI file is left.
  await restoreClaimFiles(context);
  const plugin = startDraPlugin({
    ...{ driver: DRA_DRIVER, registryDirectory: config.kubelet.pluginsRegistry, pluginDirectory, podUid },
    calls: observe({
      prepare: (claim, signal) => prepareClaim(claim, context, signal),
      unprepare: (claim, signal) => unprepareClaim(claim, context, signal),
    }),
    health: () => deviceHealth(config.node, offered(), isShared),
    ...{ clock, logger },
  });
  const slices = new SlicePublisher({
    ...{ api, node: config.node, clock, logger },
    devices: (areShared) => planSliceDevices(offered(), areShared),
    onShared(areShared) {
      isShared = areShared;
      plugin.healthChanged();
    },
  });
  const unsubscribe = pools.map(({ devices }) =>
    devices.subscribe(() => {
      slices.changed();
      plugin.healthChanged();
    }),
  );
  logger.info({ url }, "serving ResourceClaims");
  return {
    resource: DRA_DRIVER,
    get registered() {
      return plugin.registered;
    },
    get registrations() {
      return plugin.registrations;
    },
    async repairClaims() {
      await restoreClaimFiles(context);
      await releaseLeftAddresses(context);
    },
    async close() {
      for (const end of unsubscribe) end();
      await plugin.close();
      await Promise.all([slices.close(), status.close()]);
      api.close();
    },
  };
}

/** A pool with the ports that claims may have of it now; undefined where it has no claims. */
function offeredPool(
  { pool: { config }, devices }: StartDraOptions["pools"][number],
  uses: DeviceUses,
): OfferedPool | undefined {
  if (config.claims === undefined) return undefined;
  const held = { plugin: uses.ofPool(config.name).size, claims: uses.claimsOf(config.name) };
  return { config, ...devices.state, ports: splitCapacity(config, held).claims };
}
