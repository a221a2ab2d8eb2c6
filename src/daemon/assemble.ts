// The daemon from top to bottom: every part in the order in which it starts.
import type { AllocationPlaces } from "../allocation/allocation.ts";
import { PodDirectories } from "../allocation/pod-directories.ts";
import { checkRoot, followRoot } from "../allocation/root-mount.ts";
import { Announcer } from "../announcement/announcer.ts";
import { portOwner } from "../attachment/ensure-attachment.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import { answer } from "../cni/answer.ts";
import { DeviceHolders } from "../cni/device-holders.ts";
import type { RawRequest } from "../cni/request.ts";
import { serveCni } from "../cni/server.ts";
import { StaleRequestFilter } from "../cni/stale-requests.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { type DataplaneConfig, openDataplane } from "../dataplane/open-dataplane.ts";
import type { PortOwner } from "../dataplane/port.ts";
import { createAllocator } from "../device-plugin/allocate.ts";
import { allocateDataplane, dataplaneDevices } from "../device-plugin/dataplane-resource.ts";
import { type DevicePlugin, startDevicePlugin } from "../device-plugin/plugin.ts";
import { type PoolPlugin, startPoolPlugin } from "../device-plugin/pool-plugins.ts";
import type { RunningDra } from "../dra/start-dra.ts";
import { takeOwnership } from "../files/owner-lock.ts";
import type { ApiServerPlace } from "../kube-api/open-api.ts";
import { kubeletPaths } from "../kubelet/paths.ts";
import { listHeldDevices } from "../kubelet/pod-resources.ts";
import type { Logger } from "../logging/logger.ts";
import { type RunningEvents, startEvents } from "../observe/events/start-events.ts";
import {
  observeAllocations,
  observeClaims,
  observeCni,
  observePodResources,
} from "../observe/observed-calls.ts";
import { startObserver } from "../observe/observer.ts";
import { DeviceUses } from "../pools/capacity.ts";
import { type Pool, Pools } from "../pools/pools.ts";
import type { PodName } from "../reconcile/kubelet-view.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { rebuildAllocations } from "../reconcile/restore-artefacts.ts";
import type { PortRecord } from "../records/port-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { checkLabels } from "./check-start.ts";
import { nodeView } from "./node-view.ts";
import { startStatus } from "./start-status.ts";

/** What a daemon is built from. */
export interface DaemonOptions {
  readonly config: DaemonConfig;
  /** The daemon's own pod, where it runs in one; kubelet's list of pods is trusted only when it is in it. */
  readonly ownPod: PodName | undefined;
  /** Its UID, by which kubelet tells the DRA driver of one release from that of the next. */
  readonly podUid?: string | undefined;
  /** Where the cluster says that its API server is, where it does. */
  readonly apiServer?: ApiServerPlace | undefined;
  /** Release, as metrics report it. */
  readonly version: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Ends a start that is not through; a daemon that has started is ended by closing it. */
  readonly signal: AbortSignal;
}

/** Time for one read of kubelet's list, within the time of a CNI request. */
const POD_LIST_MS = 5_000;

/** Work on one port takes 8 s at most; the rest is for a slow disk. */
const RECONCILER_SLACK_MS = 60_000;

/** A daemon that serves until it is closed. */
export interface Daemon {
  close(): Promise<void>;
}

/**
 * Starts the parts in the order in which they depend on each other, and stops them in reverse.
 * @throws the signal's reason when it fires before all have started; those that had are stopped then
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { config, ownPod, apiServer, version, logger, clock, signal } = options;
  const { root } = config;
  const places: AllocationPlaces = config;
  await using undo = new AsyncDisposableStack();

  // 1. The root, and the records, which one daemon at a time owns.
  const rootCheck = { root, allowInsecure: config.rootFileSystem.allowInsecure };
  for (const reason of await checkRoot(rootCheck)) {
    logger.warn({ file: root, reason }, "the root is not safe against its pods");
  }
  const rootProblem = await followRoot(rootCheck);
  await checkLabels(config, logger);
  const owner = await takeOwnership(config.recordsDirectory, clock, signal);
  undo.defer(() => owner.release());
  const records = await openRecords(config.recordsDirectory, logger);
  signal.throwIfAborted();
  for (const { file, reason } of [...records.allocations.unreadable, ...records.ports.unreadable]) {
    logger.error({ file, reason }, "a damaged record is set aside");
  }

  // 2. Metrics and probes. They show the parts below as these start.
  const directories = new PodDirectories({ root, clock, logger });
  const poolPlugins: PoolPlugin[] = [];
  const plugins: Pick<DevicePlugin, "resource" | "registered" | "registrations">[] = [];
  let events: RunningEvents | undefined;
  let reconciler: Reconciler | undefined;
  const view = nodeView({
    ...{ config, records, directories, rootProblem, poolPlugins, plugins },
    events: () => events?.counts,
  });
  const observer = await startObserver({
    listen: config.observe,
    interfaces: config.observe.interfaces,
    maxReconcilerSilenceMs: config.reclaim.intervalSeconds * 1000 + RECONCILER_SLACK_MS,
    ...{ node: view, version, clock, logger },
  });
  undo.defer(() => observer.close());
  const startedAt = clock.now();
  logger.info({ url: observer.url }, "serving metrics and probes");

  // 3. Pods' directories, as the records have them.
  void directories.start();
  undo.defer(() => directories.close());
  await rebuildAllocations(records, places, logger, signal);
  signal.throwIfAborted();

  // 4. Pools with their switches, whose guests are announced.
  const announcer = new Announcer({
    ports: records.ports,
    isEnabled: config.announce,
    onAnnounced: (outcome) => observer.metrics.count("vhostuser_announcements_total", { outcome }),
    ...{ clock, logger },
  });
  undo.defer(() => announcer.close());
  const ownersOf = ownersByPort(config.node, records);
  const open = (dataplane: DataplaneConfig) =>
    openDataplane(dataplane, {
      ...{ node: config.node, logger },
      ownersOf,
      onDisturbed: (ports) => reconciler?.disturbed(ports),
      onGuestRequest: (outcome) =>
        observer.metrics.count("vhostuser_guest_address_requests_total", { outcome }),
      onConnected(kind, { forgetsPorts }) {
        observer.metrics.count("vhostuser_switch_connections_total", { switch: kind });
        if (forgetsPorts) reconciler?.repairAllPorts();
      },
    });
  const pools = new Pools({
    pools: config.pools,
    allocations: records.allocations,
    open: (dataplane) => announcer.follow(observer.dataplanes.observe(open(dataplane))),
    logger,
  });
  undo.defer(() => pools.close());
  const node: NodeContext = { config, records, pools };

  // 5. Kubernetes events, where they are on.
  events = startEvents({
    ...{ config, apiServer, podName: ownPod?.name, clock, logger },
    ports: records.ports,
    downFor: () => observer.dataplanes.downFor(),
    unsettled: () => observer.reconcile.unsettledPorts,
    pools: () => view.pools().map(({ name, healthy }) => ({ name, isHealthy: healthy })),
  });
  undo.defer(() => events?.close());
  observer.reconcile.events = events?.events;

  // 6. CNI.
  const kubelet = kubeletPaths(config.kubelet);
  const listPods = observePodResources(observer.metrics, (limit) =>
    listHeldDevices({ socketPath: kubelet.podResourcesSocket, signal: limit }),
  );
  // kubelet allows 100 calls a second, in bursts of 10, and a node that boots attaches dozens of pods at a time.
  const podList = new SharedRead({ read: () => listPods(AbortSignal.timeout(POD_LIST_MS)) });
  const holders = new DeviceHolders(() => podList.get(), records.allocations);
  const following = new AbortController();
  undo.defer(() => following.abort());
  holders.follow(clock, following.signal);
  const locks = new KeyedMutex();
  const cni = { node, locks, stale: new StaleRequestFilter(), holders, clock, logger };
  const counted = observeCni(observer.metrics, (request: RawRequest, limit) => answer(request, cni, limit));
  const server = await serveCni({
    socketPath: config.cniSocket,
    answer: async (request, limit) => {
      const answered = await counted(request, limit);
      events?.events.answered(request, answered);
      return answered;
    },
    logger,
  });
  undo.defer(() => server.close());

  // 7. The node's status, for vhostuserctl and browsers.
  const status = await startStatus(
    config,
    {
      ...{ context: node, view, version, startedAt, clock },
      counts: () => observer.counts(),
      listPods: () => podList.get(),
    },
    logger,
  );
  undo.defer(() => status.close());

  // 8. kubelet's plugins. After a signal kubelet would be given devices and lose them again.
  signal.throwIfAborted();
  const uses = new DeviceUses(records.allocations);
  undo.defer(() => uses.close());
  const startPlugin = async (pool: Pool): Promise<void> => {
    const { name } = pool.config;
    const allocator = createAllocator({
      ...{ pool: pool.config, places, allocations: records.allocations, clock, logger },
    });
    const allocate = observeAllocations(observer.metrics, name, allocator);
    const started = await startPoolPlugin({ pool, kubelet, uses, allocate, rootProblem, clock, logger });
    undo.defer(() => started.close());
    poolPlugins.push(started);
    plugins.push(started.plugin);
  };
  // All of them, so that one that starts beside a failing one is stopped as well.
  for (const result of await Promise.allSettled([...pools.configured.values()].map(startPlugin))) {
    if (result.status === "rejected") throw result.reason;
  }
  signal.throwIfAborted();
  const dataplane = startDevicePlugin({
    resource: config.dataplaneResource,
    devices: dataplaneDevices(),
    allocate: async () => allocateDataplane(root, config.switchRoot ?? root),
    ...{ kubelet, logger, clock },
  });
  undo.defer(() => dataplane.close());
  plugins.push(dataplane);
  let dra: RunningDra | undefined;
  if (config.dra.enabled) {
    // Loaded only here, for its size in memory.
    const { startDra } = await import("../dra/start-dra.ts");
    dra = await startDra({
      ...{ node, locks, pools: poolPlugins, uses, apiServer, podUid: options.podUid, clock, logger },
      observe: ({ prepare, unprepare }) => ({
        prepare: observeClaims(observer.metrics, "prepare", prepare),
        unprepare: observeClaims(observer.metrics, "unprepare", unprepare),
      }),
    });
    undo.defer(() => dra?.close());
    if (dra !== undefined) plugins.push(dra);
    signal.throwIfAborted();
  }

  // 9. The reconciler, last: it may have to wait for a switch that is unreachable.
  reconciler = new Reconciler({
    ...{
      context: node,
      places,
      locks,
      observer: observer.reconcile,
      directories,
      listPods,
      ownPod,
      repairClaims: dra?.repairClaims,
      clock,
      logger,
    },
  });
  reconciler.start();
  undo.defer(() => reconciler?.close());

  const running = undo.move();
  return { close: () => running.disposeAsync() };
}

/** Owners that asked for a port of a name and did not release it, by the records; a listing asks for every port. */
function ownersByPort(node: string, { ports }: Records): (portName: string) => readonly PortOwner[] {
  let byName: ReadonlyMap<string, readonly PortRecord[]> | undefined;
  ports.subscribe(() => {
    byName = undefined;
  });
  return (portName) => {
    byName ??= Map.groupBy(ports.list(), (record) => record.portName);
    return (byName.get(portName) ?? []).map((record) => portOwner(node, record));
  };
}
