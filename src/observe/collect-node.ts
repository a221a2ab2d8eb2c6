import type { PortRecord } from "../records/port-record.ts";
import type { Metrics } from "./metrics.ts";
import type { NodeView } from "./node-view.ts";

const PORT_STATES: readonly PortRecord["state"][] = ["attaching", "attached", "detaching", "releasing"];

/** What is known of ports beside their records. */
export interface PortNews {
  /** Milliseconds for which each port is down, by name; undefined while no switch answers. */
  readonly downFor: ReadonlyMap<string, number> | undefined;
  /** Names of ports that the reconciler could not settle when it last tried. */
  readonly unsettled: ReadonlySet<string>;
}

/** Pools, ports, records and registrations as they are now. */
export function collectNode(view: NodeView, news: PortNews, metrics: Metrics): void {
  const pools = view.pools();
  const inUse = devicesInUse(view);
  metrics.replace(
    "vhostuser_pool_devices",
    pools.map(({ name, devices }) => [{ pool: name }, devices.length]),
  );
  metrics.replace(
    "vhostuser_pool_devices_healthy",
    pools.map(({ name, devices }) => [{ pool: name }, devices.filter(({ healthy }) => healthy).length]),
  );
  const named = new Set([...pools.map(({ name }) => name), ...inUse.keys()]);
  metrics.replace(
    "vhostuser_pool_devices_in_use",
    [...named].map((pool) => [{ pool }, inUse.get(pool)?.size ?? 0]),
  );
  for (const { name } of pools) {
    metrics.count("vhostuser_allocations_total", { pool: name, code: "ok" }, 0);
    metrics.count("vhostuser_reclaims_total", { pool: name }, 0);
  }
  collectPorts(view, news, named, metrics);
  const { allocations, ports } = view.records;
  metrics.set("vhostuser_unreadable_records", {}, allocations.unreadable.length + ports.unreadable.length);
  metrics.replace("vhostuser_sockets_mended_total", [[{}, view.socketsMended()]]);
  const events = view.events();
  metrics.replace(
    "vhostuser_events_total",
    (["posted", "merged", "dropped", "failed"] as const).map((outcome) => [{ outcome }, events[outcome]]),
  );
  const plugins = view.plugins();
  metrics.replace(
    "vhostuser_kubelet_registered",
    plugins.map(({ resource, registered }) => [{ resource }, registered ? 1 : 0]),
  );
  metrics.replace(
    "vhostuser_kubelet_registrations_total",
    plugins.map(({ resource, registrations }) => [{ resource }, registrations]),
  );
}

/** By pool. A device whose pod was replaced is in two allocations until the older one is reclaimed. */
function devicesInUse(view: NodeView): ReadonlyMap<string, ReadonlySet<string>> {
  const inUse = new Map<string, Set<string>>();
  for (const { pool, devices } of view.records.allocations.list()) {
    const held = inUse.get(pool) ?? new Set();
    for (const device of devices) held.add(device);
    inUse.set(pool, held);
  }
  return inUse;
}

function collectPorts(
  view: NodeView,
  { downFor, unsettled }: PortNews,
  named: ReadonlySet<string>,
  metrics: Metrics,
): void {
  const byPool = Map.groupBy(view.records.ports.list(), ({ pool }) => pool);
  const pools = [...new Set([...named, ...byPool.keys()])].map(
    (pool) => [pool, byPool.get(pool) ?? []] as const,
  );
  metrics.replace(
    "vhostuser_ports",
    pools.flatMap(([pool, ports]) =>
      PORT_STATES.map(
        (state) => [{ pool, state }, ports.filter((port) => port.state === state).length] as const,
      ),
    ),
  );
  metrics.replace(
    "vhostuser_ports_unsettled",
    pools.map(([pool, ports]) => [{ pool }, ports.filter(({ portName }) => unsettled.has(portName)).length]),
  );
  const down = pools.map(([pool, ports]) => {
    const attached = ports.filter(({ state }) => state === "attached");
    return [pool, attached.flatMap(({ portName }) => downFor?.get(portName) ?? [])] as const;
  });
  metrics.replace(
    "vhostuser_links_down",
    downFor === undefined ? [] : down.map(([pool, times]) => [{ pool }, times.length]),
  );
  metrics.replace(
    "vhostuser_link_down_longest_seconds",
    downFor === undefined ? [] : down.map(([pool, times]) => [{ pool }, Math.max(0, ...times) / 1000]),
  );
}
