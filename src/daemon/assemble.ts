import type { AllocationPlaces } from "../allocation/ensure-allocation.ts";
import { ContainerTurns } from "../attachment/container-turns.ts";
import type { NodeContext, Pool } from "../attachment/node-context.ts";
import type { Clock } from "../clock/clock.ts";
import { answer } from "../cni/answer.ts";
import type { CniContext } from "../cni/cni-context.ts";
import { serveCni } from "../cni/server.ts";
import type { DaemonConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { openDataplane } from "../dataplane/open-dataplane.ts";
import { createAllocator } from "../device-plugin/allocate.ts";
import { allocateDataplane, DATAPLANE_DEVICE } from "../device-plugin/dataplane-resource.ts";
import type { DeviceSource } from "../device-plugin/device-source.ts";
import { type DevicePlugin, startDevicePlugin } from "../device-plugin/plugin.ts";
import { PoolDevices } from "../device-plugin/pool-devices.ts";
import { watchPoolHealth } from "../device-plugin/watch-pool-health.ts";
import type { KubeletPaths } from "../kubelet/paths.ts";
import { PodList } from "../kubelet/pod-list.ts";
import { listHeldDevices } from "../kubelet/pod-resources.ts";
import type { Logger } from "../logging/logger.ts";
import { parseDeviceId } from "../names/device-id.ts";
import type { PodName } from "../reconcile/kubelet-view.ts";
import { rebuildAllocations } from "../reconcile/rebuild-allocations.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { openRecords } from "../records/records.ts";
import { takeOwnership } from "./owner-lock.ts";

/** What a daemon is built from. */
export interface DaemonOptions {
  readonly config: DaemonConfig;
  /** The daemon's own pod, where it runs in one; kubelet's list of pods is trusted only when it is in it. */
  readonly ownPod: PodName | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Time for one read of kubelet's list, within the time of a CNI request. */
const POD_LIST_MS = 5_000;

/** A daemon that serves until it is closed. */
export interface Daemon {
  close(): Promise<void>;
}

/**
 * Starts the parts in the order in which they stand on each other, and stops them in reverse: the records'
 * owner, directories, the CNI server, kubelet's plugins, and last the reconciler, which may have to wait for a
 * switch that is away.
 */
export async function startDaemon({ config, ownPod, logger, clock }: DaemonOptions): Promise<Daemon> {
  await using undo = new AsyncDisposableStack();
  const owner = await takeOwnership(config.recordsDirectory, clock);
  undo.defer(() => owner.release());
  const records = await openRecords(config.recordsDirectory);
  for (const { file, reason } of [...records.allocations.unreadable, ...records.ports.unreadable]) {
    logger.error({ file, reason }, "a record cannot be read; it is left alone");
  }
  const places: AllocationPlaces = {
    root: config.root,
    podRoot: config.podRoot,
    deviceInfoDirectory: config.deviceInfoDirectory,
  };
  await rebuildAllocations(records, places, logger);

  const pools = openPools(config, logger);
  for (const dataplane of new Set([...pools.values()].map((pool) => pool.dataplane))) {
    undo.defer(() => dataplane.close());
  }
  const node: NodeContext = { config, records, pools };
  const turns = new ContainerTurns();
  const listPods = (signal: AbortSignal) =>
    listHeldDevices({ socketPath: config.kubelet.podResources, signal });
  const podList = new PodList({ read: listPods, deadlineMs: POD_LIST_MS });

  const cni: CniContext = {
    node,
    turns,
    clock,
    logger,
    devicesOfPod: async (namespace, name) => {
      const pods = (await podList.read()).filter(
        (pod) => pod.podNamespace === namespace && pod.podName === name,
      );
      // Ids of ours name their pool; whether it is still configured does not matter here.
      return pods
        .flatMap(({ containers }) => containers.flatMap(({ devices }) => devices.flatMap(({ ids }) => ids)))
        .filter((id) => parseDeviceId(id) !== undefined);
    },
  };
  const server = await serveCni({
    socketPath: config.cniSocket,
    logger,
    answer: (request, signal) => answer(request, cni, signal),
  });
  undo.defer(() => server.close());

  for (const plugin of startPlugins(node, places, { config, ownPod, logger, clock }, undo)) {
    undo.defer(() => plugin.close());
  }
  const reconciler = new Reconciler({ context: node, places, turns, listPods, ownPod, clock, logger });
  reconciler.start();
  undo.defer(() => reconciler.close());

  const running = undo.move();
  return { close: () => running.disposeAsync() };
}

function openPools(config: DaemonConfig, logger: Logger): ReadonlyMap<string, Pool> {
  // One connection to each switch, however many pools stand for bridges of it.
  const opened = new Map<string, Dataplane>();
  const pools = new Map<string, Pool>();
  for (const pool of config.pools) {
    const key = `${pool.dataplane.type} ${pool.dataplane.database}`;
    const dataplane = opened.get(key) ?? openDataplane(pool.dataplane, { node: config.node, logger });
    opened.set(key, dataplane);
    pools.set(pool.name, { config: pool, dataplane });
  }
  return pools;
}

function startPlugins(
  node: NodeContext,
  places: AllocationPlaces,
  { config, logger, clock }: DaemonOptions,
  undo: AsyncDisposableStack,
): readonly DevicePlugin[] {
  const kubelet: KubeletPaths = {
    pluginDirectory: config.kubelet.devicePlugins,
    kubeletSocket: `${config.kubelet.devicePlugins}/kubelet.sock`,
    podResourcesSocket: config.kubelet.podResources,
  };
  const plugins = [...node.pools.values()].map(({ config: pool, dataplane }) => {
    const devices = new PoolDevices(pool);
    const stop = new AbortController();
    const watch = watchPoolHealth({ pool, devices, dataplane, clock, logger, signal: stop.signal });
    undo.defer(async () => {
      stop.abort();
      await watch;
    });
    const allocate = createAllocator({ pool, places, allocations: node.records.allocations, clock, logger });
    return startDevicePlugin({ resource: pool.resource, kubelet, devices, allocate, logger, clock });
  });
  const dataplaneDevice: DeviceSource = {
    current: () => [{ id: DATAPLANE_DEVICE, healthy: true, numaNodes: [] }],
    subscribe: () => () => undefined,
  };
  const dataplane = startDevicePlugin({
    resource: config.dataplaneResource,
    kubelet,
    devices: dataplaneDevice,
    allocate: async () => allocateDataplane(config.root, config.switchRoot ?? config.root),
    logger,
    clock,
  });
  return [...plugins, dataplane];
}
