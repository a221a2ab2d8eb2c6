import type { AllocationPlaces } from "../allocation/allocation.ts";
import { PodDirectories } from "../allocation/pod-directories.ts";
import { checkRoot } from "../allocation/root-mount.ts";
import { Announcer } from "../announcement/announcer.ts";
import { portOwner } from "../attachment/ensure-attachment.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import { answer } from "../cni/answer.ts";
import type { CniContext } from "../cni/cni-context.ts";
import { DeviceHolders } from "../cni/device-holders.ts";
import type { RawRequest } from "../cni/request.ts";
import { RequestOrder } from "../cni/request-order.ts";
import { serveCni } from "../cni/server.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { openDataplane } from "../dataplane/open-dataplane.ts";
import type { PortOwner } from "../dataplane/port.ts";
import { createAllocator } from "../device-plugin/allocate.ts";
import { allocateDataplane, dataplaneDevices } from "../device-plugin/dataplane-resource.ts";
import { startDevicePlugin } from "../device-plugin/plugin.ts";
import { startPoolPlugin } from "../device-plugin/pool-plugins.ts";
import { kubeletPaths } from "../kubelet/paths.ts";
import { listHeldDevices } from "../kubelet/pod-resources.ts";
import type { Logger } from "../logging/logger.ts";
import { type ApiServerPlace, startEvents } from "../observe/events/start-events.ts";
import { Observer } from "../observe/observer.ts";
import { DeviceUses } from "../pools/capacity.ts";
import { Pools } from "../pools/pools.ts";
import type { PodName } from "../reconcile/kubelet-view.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { rebuildAllocations } from "../reconcile/restore-artefacts.ts";
import { openRecords, type Records } from "../records/records.ts";
import { serveStatus } from "../status/serve-status.ts";
import { type StatusSource, statusSocket } from "../status/status-source.ts";
import type { Clock } from "../sync/clock.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { checkLabels } from "./check-labels.ts";
import { heardByAll } from "./heard-by-all.ts";
import { takeOwnership } from "./owner-lock.ts";
import { startStatusPage } from "./start-status-page.ts";
import { nodeView, type StartedParts } from "./started-parts.ts";

/** What a daemon is built from. */
export interface DaemonOptions {
  readonly config: DaemonConfig;
  /** The daemon's own pod, where it runs in one; kubelet's list of pods is trusted only when it is in it. */
  readonly ownPod: PodName | undefined;
  /** Where the cluster says that its API server is, where it does. */
  readonly apiServer?: ApiServerPlace | undefined;
  /** Release, as metrics tell it. */
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
 * Starts the parts in the order in which they stand on each other, and stops them in reverse: the records'
 * owner, directories, the CNI server, kubelet's plugins, and last the reconciler, which may have to wait for a
 * switch that is away.
 * @throws the signal's reason when it fires before all have started; those that had are stopped then
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { config, ownPod, version, logger, clock, signal } = options;
  await using undo = new AsyncDisposableStack();
  const { root, rootFileSystem } = config;
  for (const reason of await checkRoot({ root, allowInsecure: rootFileSystem.allowInsecure })) {
    logger.warn({ file: root, reason }, "the root is not safe against its pods");
  }
  await checkLabels({ config, logger });
  const owner = await takeOwnership(config.recordsDirectory, clock, signal);
  undo.defer(() => owner.release());
  const records = await openRecords(config.recordsDirectory);
  signal.throwIfAborted();
  for (const { file, reason } of [...records.allocations.unreadable, ...records.ports.unreadable]) {
    logger.error({ file, reason }, "a damaged record is set aside");
  }
  const places: AllocationPlaces = {
    root: config.root,
    podRoot: config.podRoot,
    deviceInfoDirectory: config.deviceInfoDirectory,
  };
  // Filled below, in the order in which they start; metrics and probes tell of them from the beginning.
  const started: StartedParts = {};
  const startedAt = clock.now();
  const view = nodeView(config, records, started);
  const observer = await Observer.start({
    listen: config.observe,
    interfaces: config.observe.interfaces,
    view,
    version,
    maxReconcilerSilenceMs: () => config.reclaim.intervalSeconds * 1000 + RECONCILER_SLACK_MS,
    clock,
    logger,
  });
  undo.defer(() => observer.close());
  logger.info({ url: observer.url }, "serving metrics and probes");
  const directories = new PodDirectories({ root, clock, logger });
  started.directories = directories;
  void directories.start();
  undo.defer(() => directories.close());
  await rebuildAllocations(records, places, logger, signal);
  signal.throwIfAborted();

  const uses = new DeviceUses(records.allocations);
  undo.defer(() => uses.close());
  const announcer = new Announcer({
    ports: records.ports,
    isEnabled: config.announce,
    onAnnounced: (outcome) => observer.announced(outcome),
    clock,
    logger,
  });
  undo.defer(() => announcer.close());
  const pools = new Pools({
    pools: config.pools,
    allocations: records.allocations,
    open: (dataplane) =>
      announcer.follow(
        observer.dataplane(
          openDataplane(dataplane, {
            node: config.node,
            logger,
            ownersOf: (portName) => ownersOf(config.node, portName, records),
            onDisturbed: (ports) => started.reconciler?.disturbed(ports),
            onConnected(kind, { forgetsPorts }) {
              observer.switchConnected(kind);
              if (forgetsPorts) started.reconciler?.repairAllPorts();
            },
          }),
        ),
      ),
    logger,
  });
  undo.defer(() => pools.close());
  const kubelet = kubeletPaths(config.kubelet);
  const node: NodeContext = { config, records, pools };
  const events = startEvents({
    config,
    ...{ apiServer: options.apiServer, podName: ownPod?.name, clock, logger },
    ports: records.ports,
    downFor: () => observer.downFor(),
    unsettled: () => observer.reconcile.unsettledPorts,
    pools: () =>
      view.pools().map(({ name, devices }) => ({ name, isHealthy: devices.some((one) => one.healthy) })),
  });
  if (events !== undefined) started.events = events;
  undo.defer(() => events?.close());
  const locks = new KeyedMutex();
  const listPods = observer.podResources((limit) =>
    listHeldDevices({ socketPath: kubelet.podResourcesSocket, signal: limit }),
  );
  // Kubelet allows 100 calls a second, in bursts of 10, and a node that boots attaches dozens of pods at a time.
  const podList = new SharedRead({ read: () => listPods(AbortSignal.timeout(POD_LIST_MS)) });

  const holders = new DeviceHolders({
    listPods: () => podList.get(),
    allocations: () => records.allocations.list(),
  });
  const following = new AbortController();
  undo.defer(() => following.abort());
  holders.follow(records.allocations, clock, following.signal);
  const cni: CniContext = {
    node,
    locks,
    order: new RequestOrder(),
    clock,
    logger,
    holders,
  };
  const counted = observer.cni((request: RawRequest, limit) => answer(request, cni, limit));
  const server = await serveCni({
    socketPath: config.cniSocket,
    logger,
    answer: events?.events.cni(counted) ?? counted,
  });
  undo.defer(() => server.close());

  const source: StatusSource = {
    ...{ context: node, view, version, startedAt, clock },
    counts: () => observer.counts(),
    listPods: () => podList.get(),
  };
  const status = await serveStatus({ socketPath: statusSocket(config), source, logger }).catch(
    (err: unknown) => {
      // A node serves its pods also while nobody can look at it.
      logger.error({ err }, "the node's status cannot be served");
      return undefined;
    },
  );
  undo.defer(() => status?.close());
  const page = await startStatusPage(config.statusPage, source, logger);
  undo.defer(() => page?.close());
  if (status !== undefined) logger.info({ url: status.url }, "serving the node's status");
  // kubelet would be told of devices and lose them again.
  signal.throwIfAborted();
  const plugins = await Promise.all(
    [...pools.configured.values()].map(async (pool) => {
      const allocate = createAllocator({
        ...{ pool: pool.config, places, allocations: records.allocations, clock, logger },
      });
      const plugin = await startPoolPlugin({
        ...{ pool, kubelet, uses, clock, logger },
        allocate: observer.allocations(pool.config.name, allocate),
      });
      undo.defer(() => plugin.close());
      return plugin;
    }),
  );
  started.plugins = plugins;
  signal.throwIfAborted();
  const dataplane = startDevicePlugin({
    resource: config.dataplaneResource,
    kubelet,
    devices: dataplaneDevices(),
    allocate: async () => allocateDataplane(config.root, config.switchRoot ?? config.root),
    logger,
    clock,
  });
  started.dataplane = dataplane;
  undo.defer(() => dataplane.close());
  const repairs = heardByAll(observer.reconcile, events?.events);
  const reconciler = new Reconciler({
    ...{ context: node, places, locks, observer: repairs, directories, listPods, ownPod, clock, logger },
  });
  started.reconciler = reconciler;
  reconciler.start();
  undo.defer(() => reconciler.close());

  const running = undo.move();
  return { close: () => running.disposeAsync() };
}

/** Owners for which a port of this name was asked and is not given up, by the records. */
function ownersOf(node: string, portName: string, { ports }: Records): readonly PortOwner[] {
  return ports
    .list()
    .filter((record) => record.portName === portName)
    .map((record) => portOwner(node, record));
}
