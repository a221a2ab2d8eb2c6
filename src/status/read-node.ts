import { listAllocationDirectories } from "../allocation/socket-directories.ts";
import type { DaemonConfig } from "../config/schema.ts";
import type { Readiness } from "../dataplane/dataplane.ts";
import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";
import { readHugepages } from "../observe/collect.ts";
import type { Pool } from "../pools/pools.ts";
import { holdKey, type KubeletView, kubeletView } from "../reconcile/kubelet-view.ts";
import {
  type AllocationRecord,
  deviceNamesOf,
  isOfClaim,
  pluginDevicesOf,
  resourceOf,
} from "../records/allocation-record.ts";
import { orAborted } from "../sync/deadlines.ts";
import { mapInChunks } from "../sync/map-in-chunks.ts";
import {
  claimOf,
  describeDevice,
  describeInterface,
  readSwitches,
  type SwitchReading,
  unattachedDevices,
} from "./describe-interface.ts";
import type { NodeStatus, PoolStatus } from "./shape.ts";
import type { StatusSource } from "./status-source.ts";

/** Interfaces or allocations before other work may run; each costs some 20 µs. */
const CHUNK = 50;

/** Allocate makes its directories before its record; longer than that takes. */
const SETTLED_MS = 200;

/** Reads everything about the node; a switch that does not answer before the signal fires is reported as such. */
export async function readNode(source: StatusSource, signal: AbortSignal): Promise<NodeStatus> {
  const { context, view, version, startedAt, clock } = source;
  const { records, config, pools } = context;
  const before = namesOf(source);
  const [pods, rootProblem, switches, ready, counts, directories] = await Promise.all([
    orAborted(source.listPods(), signal).catch(() => undefined),
    view.rootProblem(),
    readSwitches(pools.all(), signal),
    probePools(pools.all(), signal),
    source.counts(),
    listAllocationDirectories(config.root).catch(() => []),
  ]);
  const readingOf = (pool: Pool | undefined) => pool && switches.get(pool.dataplane);
  const root = { root: config.root, rootProblem };
  const attached = await mapInChunks(records.ports.list(), CHUNK, (record) =>
    describeInterface(
      root,
      record,
      records.allocations.get(record.allocationId),
      readingOf(pools.ofPort(record)),
    ),
  );
  const unattached = await mapInChunks(unattachedDevices(records, pods ?? []), CHUNK, (one) =>
    describeDevice(root, one),
  );
  const allocations = await mapInChunks(records.allocations.list(), CHUNK, (record) => {
    const { id, pool, pod, createdAt } = record;
    const [resource, devices] = [resourceOf(record), [...deviceNamesOf(record)]];
    return { id, pool, resource, claim: claimOf(record), devices, pod, createdAt };
  });
  // Before and after the switches: what was made meanwhile has its record now, what was removed had it before.
  const after = namesOf(source);
  const isNamed = (name: string) => before.has(name) || after.has(name);
  const ports = [...switches.values()].flatMap((one) => [...(one.ports?.values() ?? [])]);
  const unnamed = directories.filter((id) => !isNamed(id));
  return {
    node: config.node,
    version,
    startedAt,
    at: clock.now(),
    rootProblem: rootProblem && [rootProblem, ...switchPods(pods ?? [], config)].join("; "),
    pools: poolsOf(source, pods && kubeletView(pods), ready, readingOf),
    hugepages: readHugepages(),
    resources: view.plugins().map(({ resource: name, ...rest }) => ({ name, ...rest })),
    allocations,
    interfaces: [...attached, ...unattached],
    leftovers: {
      ports: ports
        .filter(({ name }) => !isNamed(name))
        .map(({ name, bridge, owner }) => ({ name, bridge, pod: `${owner.podNamespace}/${owner.podName}` })),
      directories: unnamed.length === 0 ? [] : await stillUnnamed(source, unnamed, signal),
      records: [...records.allocations.unreadable, ...records.ports.unreadable].map(({ file, reason }) => ({
        file,
        reason,
      })),
    },
    counts: {
      repairs: Object.fromEntries(
        counts.repairs.map(({ labels, value }) => [labels["kind"] ?? "", value] as const),
      ),
      errors: counts.errors
        .filter(({ value }) => value > 0)
        .map(({ labels: { source: from = "", code = "" }, value }) => ({ source: from, code, count: value })),
      socketsOpened: view.socketsOpened(),
    },
    lastPassAt: counts.lastPassAt,
  };
}

/** Pods with a switch: they keep the root that they have mounted, too. */
function switchPods(pods: readonly PodDevices[], { dataplaneResource }: DaemonConfig): string[] {
  return pods
    .filter((pod) => devicesOfPod(pod).some(({ resource }) => resource === dataplaneResource))
    .map(({ podNamespace, podName }) => `restart the switch's pod ${podNamespace}/${podName} after that`);
}

/** Whether the switches can take ports on the pools' bridges, by pool. */
async function probePools(
  pools: readonly Pool[],
  signal: AbortSignal,
): Promise<ReadonlyMap<Pool, Readiness>> {
  const probes = pools.map(
    async (pool) => [pool, await pool.dataplane.probe(pool.config.dataplane.bridge, signal)] as const,
  );
  return new Map(await Promise.all(probes));
}

/** Ports and directories that records ask for now. */
function namesOf({ context: { records } }: StatusSource): ReadonlySet<string> {
  const ports = records.ports.list().map(({ portName }) => portName);
  return new Set([...ports, ...records.allocations.list().map(({ id }) => id)]);
}

/** Those that a second read finds too, and that still have no record. */
async function stillUnnamed(
  { context: { config, records }, clock }: StatusSource,
  unnamed: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  await clock.sleep(SETTLED_MS, signal).catch(() => undefined);
  const there = new Set(await listAllocationDirectories(config.root).catch(() => unnamed));
  return unnamed.filter((id) => there.has(id) && records.allocations.get(id) === undefined);
}

/** A device whose pod is gone is not in use, although it is reclaimed later; where kubelet cannot be read, it is. */
function poolsOf(
  { context, view }: StatusSource,
  kubelet: KubeletView | undefined,
  ready: ReadonlyMap<Pool, Readiness>,
  readingOf: (pool: Pool) => SwitchReading | undefined,
): PoolStatus[] {
  const running = new Map(view.pools().map(({ name, devices }) => [name, devices]));
  const registered = new Set(view.plugins().flatMap((one) => (one.registered ? [one.resource] : [])));
  const { pools } = context;
  const allocations = Map.groupBy(context.records.allocations.list(), (record) => pools.ofAllocation(record));
  const devicesInUse = (allocation: AllocationRecord) =>
    pluginDevicesOf(allocation).filter(
      (device) => kubelet === undefined || kubelet.held.has(holdKey(resourceOf(allocation), device)),
    );
  return pools.all().map((pool) => {
    const { name, resource, dataplane } = pool.config;
    const configured = pools.configured.get(name) === pool;
    const devices = (configured ? running.get(name) : undefined) ?? [];
    const { type: kind, bridge } = dataplane;
    const state = ready.get(pool);
    const reason = state?.ready === false ? state.reason : undefined;
    return {
      ...{ name, resource, bridge, configured },
      switch: { kind, ready: state?.ready === true, reason, version: readingOf(pool)?.version },
      devices: devices.length,
      healthy: devices.filter(({ healthy }) => healthy).length,
      inUse: new Set(allocations.get(pool)?.flatMap(devicesInUse)).size,
      claims: allocations.get(pool)?.filter(isOfClaim).length ?? 0,
      registered: configured && registered.has(resource),
    };
  });
}
