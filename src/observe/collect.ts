import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as eventLoop } from "node:timers/promises";
import { isOfClaim, pluginDevicesOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { PROCESS_METRICS } from "./declared-metrics.ts";
import type { MetricSet, Metrics } from "./metrics.ts";
import type { ObservedNode } from "./observed-node.ts";

const PORT_STATES: readonly PortRecord["state"][] = ["attaching", "attached", "detaching", "releasing"];

/** Values of the label of `vhostuser_events_total`. */
export const EVENT_OUTCOMES = ["posted", "merged", "dropped", "failed"] as const;

/** What is known of ports beside their records. */
export interface PortHealth {
  /** Milliseconds for which each port is down, by name; undefined while no switch answers. */
  readonly downFor: ReadonlyMap<string, number> | undefined;
  /** Names of ports that the reconciler could not settle when it last tried. */
  readonly unsettled: ReadonlySet<string>;
}

/** Pools, ports, records and registrations as they are now. */
export function collectNode(node: ObservedNode, health: PortHealth, metrics: Metrics): void {
  const pools = node.pools();
  const { allocations, ports } = node.records;
  const allocated = Map.groupBy(allocations.list(), ({ pool }) => pool);
  const names = [...new Set([...pools.map(({ name }) => name), ...allocated.keys()])];
  const healthy = ({ devices }: (typeof pools)[number]) => devices.filter((device) => device.healthy);
  metrics.replace("vhostuser_pool_devices", pools, (pool) => [{ pool: pool.name }, pool.devices.length]);
  metrics.replace("vhostuser_pool_devices_healthy", pools, (pool) => [
    { pool: pool.name },
    healthy(pool).length,
  ]);
  // A device whose pod was replaced is in two allocations until the older one is reclaimed.
  const inUse = (pool: string) => new Set(allocated.get(pool)?.flatMap((one) => pluginDevicesOf(one)));
  metrics.replace("vhostuser_pool_devices_in_use", names, (pool) => [{ pool }, inUse(pool).size]);
  const claimed = pools.filter(({ claimPorts }) => claimPorts > 0);
  metrics.replace("vhostuser_pool_claim_ports", claimed, ({ name, claimPorts }) => [
    { pool: name },
    claimPorts,
  ]);
  metrics.replace("vhostuser_pool_claim_ports_in_use", claimed, ({ name: pool }) => [
    { pool },
    allocated.get(pool)?.filter(isOfClaim).length ?? 0,
  ]);
  for (const { name } of pools) {
    metrics.count("vhostuser_allocations_total", { pool: name, code: "ok" }, 0);
    metrics.count("vhostuser_reclaims_total", { pool: name }, 0);
  }
  collectPorts(ports.list(), health, names, metrics);
  metrics.set("vhostuser_unreadable_records", {}, allocations.unreadable.length + ports.unreadable.length);
  metrics.replace("vhostuser_sockets_opened_total", [node.socketsOpened()], (count) => [{}, count]);
  const events = node.events();
  metrics.replace("vhostuser_events_total", EVENT_OUTCOMES, (outcome) => [{ outcome }, events[outcome]]);
  const plugins = node.plugins();
  metrics.replace("vhostuser_kubelet_registered", plugins, ({ resource, registered }) => [
    { resource },
    registered ? 1 : 0,
  ]);
  metrics.replace("vhostuser_kubelet_registrations_total", plugins, ({ resource, registrations }) => [
    { resource },
    registrations,
  ]);
}

function collectPorts(
  records: readonly PortRecord[],
  { downFor, unsettled }: PortHealth,
  poolNames: readonly string[],
  metrics: Metrics,
): void {
  const byPool = Map.groupBy(records, ({ pool }) => pool);
  const pools = [...new Set([...poolNames, ...byPool.keys()])].map((pool) => {
    const ports = byPool.get(pool) ?? [];
    const attached = ports.filter(({ state }) => state === "attached");
    const failing = ports.filter(({ portName }) => unsettled.has(portName));
    const downMs = attached.flatMap(({ portName }) => downFor?.get(portName) ?? []);
    return { pool, ports, failing, downMs };
  });
  const states = pools.flatMap((one) => PORT_STATES.map((state) => ({ ...one, state })));
  metrics.replace("vhostuser_ports", states, ({ pool, ports, state }) => [
    { pool, state },
    ports.filter((port) => port.state === state).length,
  ]);
  metrics.replace("vhostuser_ports_unsettled", pools, ({ pool, failing }) => [{ pool }, failing.length]);
  const known = downFor === undefined ? [] : pools;
  metrics.replace("vhostuser_links_down", known, ({ pool, downMs }) => [{ pool }, downMs.length]);
  metrics.replace("vhostuser_link_down_longest_seconds", known, ({ pool, downMs }) => [
    { pool },
    Math.max(0, ...downMs) / 1000,
  ]);
}

/** The root's file system, 0 where it cannot be read, and the hugepages that the kernel has. */
export function collectMachine(root: string, sys: string, metrics: Metrics): void {
  const roots = orNothing(() => [statfsSync(root)]);
  metrics.replace("vhostuser_root_size_bytes", roots, ({ blocks, bsize }) => [{}, blocks * bsize]);
  metrics.replace("vhostuser_root_free_bytes", roots, ({ bavail, bsize }) => [{}, bavail * bsize]);
  const pages = readHugepages(sys);
  metrics.replace("vhostuser_hugepages", pages, ({ size, total }) => [{ size }, total]);
  metrics.replace("vhostuser_hugepages_free", pages, ({ size, free }) => [{ size }, free]);
}

/** The node's hugepages by size, as in the resource `hugepages-2Mi`; empty where the kernel has none. */
export function readHugepages(sys = "/sys") {
  const top = join(sys, "kernel/mm/hugepages");
  return orNothing(() => readdirSync(top)).flatMap((name) => {
    const kib = Number(/^hugepages-(\d+)kB$/.exec(name)?.[1]);
    if (!(kib > 0)) return [];
    const read = (file: string) => Number(readFileSync(join(top, name, file), "utf8"));
    return orNothing(() => [
      { size: sizeName(kib), total: read("nr_hugepages"), free: read("free_hugepages") },
    ]);
  });
}

function sizeName(kib: number): string {
  const power = ["Gi", "Mi"].findIndex((_, index) => kib % 1024 ** (2 - index) === 0);
  return power < 0 ? `${kib}Ki` : `${kib / 1024 ** (2 - power)}${power === 0 ? "Gi" : "Mi"}`;
}

function orNothing<Value>(read: () => readonly Value[]): readonly Value[] {
  try {
    return read();
  } catch {
    return [];
  }
}

/** What the process costs. */
export async function collectProcess(
  metrics: Pick<MetricSet<typeof PROCESS_METRICS>, "set" | "replace">,
): Promise<void> {
  const before = performance.now();
  await eventLoop();
  metrics.set("nodejs_eventloop_lag_seconds", {}, (performance.now() - before) / 1000);
  const { user, system } = process.cpuUsage();
  metrics.replace("process_cpu_seconds_total", [user + system], (us) => [{}, us / 1e6]);
  const busyMs = performance.eventLoopUtilization().active;
  metrics.replace("nodejs_eventloop_busy_seconds_total", [busyMs], (ms) => [{}, ms / 1000]);
  metrics.set("process_resident_memory_bytes", {}, process.memoryUsage.rss());
  metrics.set("process_start_time_seconds", {}, performance.timeOrigin / 1000);
  metrics.set("process_open_fds", {}, readdirSync("/proc/self/fd").length);
}
