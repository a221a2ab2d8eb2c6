import { listAllocationDirectories } from "../allocation/socket-directories.ts";
import type { Readiness } from "../dataplane/dataplane.ts";
import type { Pool } from "../pools/pools.ts";
import { deviceNamesOf, resourceOf } from "../records/allocation-record.ts";
import { mapInChunks } from "../sync/map-in-chunks.ts";
import {
  describeDevice,
  describeInterface,
  readSwitches,
  type SwitchReading,
  unattachedDevices,
} from "./describe-interface.ts";
import { inspectAllocation } from "./inspect-places.ts";
import type { InterfaceStatus, NodeStatus, PoolStatus } from "./shape.ts";
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
  const [switches, ready, counts, directories] = await Promise.all([
    readSwitches(pools.all(), signal),
    probePools(pools.all(), signal),
    source.counts(),
    listAllocationDirectories(config.root).catch(() => []),
  ]);
  const readingOf = (pool: Pool | undefined) => pool && switches.get(pool.dataplane);
  const interfaces = await mapInChunks(records.ports.list(), CHUNK, (record) =>
    describeInterface(
      config.root,
      record,
      records.allocations.get(record.allocationId),
      readingOf(pools.ofPort(record)),
    ),
  );
  const allocations = await mapInChunks(records.allocations.list(), CHUNK, (record) => {
    const { id, pool, pod, createdAt } = record;
    const [resource, devices] = [resourceOf(record), [...deviceNamesOf(record)]];
    const directory = inspectAllocation(config.root, id);
    return { id, pool, resource, devices, pod, createdAt, directory };
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
    pools: poolsOf(source, ready, readingOf),
    resources: view.plugins().map(({ resource: name, ...rest }) => ({ name, ...rest })),
    allocations,
    interfaces,
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

function poolsOf(
  { context, view }: StatusSource,
  ready: ReadonlyMap<Pool, Readiness>,
  readingOf: (pool: Pool) => SwitchReading | undefined,
): PoolStatus[] {
  const running = new Map(view.pools().map(({ name, devices }) => [name, devices]));
  const registered = new Set(view.plugins().flatMap((one) => (one.registered ? [one.resource] : [])));
  const { pools } = context;
  const held = Map.groupBy(context.records.allocations.list(), (record) => pools.ofAllocation(record));
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
      inUse: new Set((held.get(pool) ?? []).flatMap((allocation) => deviceNamesOf(allocation))).size,
      registered: configured && registered.has(resource),
    };
  });
}

/**
 * Devices of pods that have no interface yet. No record names these pods, so kubelet's list is read, and only where
 * the node has such an allocation. Empty where the list cannot be read.
 */
export async function readUnattached(
  source: StatusSource,
  { interfaces, allocations }: NodeStatus,
): Promise<readonly InterfaceStatus[]> {
  const attached = new Set(interfaces.map(({ allocation }) => allocation));
  if (allocations.every(({ id }) => attached.has(id))) return [];
  const { records, config } = source.context;
  const pods = await source.listPods().catch(() => []);
  return unattachedDevices(records, pods).map((one) => describeDevice(config.root, one));
}
