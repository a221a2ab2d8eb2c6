import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import type { PortInspection } from "../dataplane/port.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { INTERFACE_METRICS } from "./declared-metrics.ts";

/** What the page is made from. */
export interface InterfacesPageOptions {
  /** All attachments of the node. */
  readonly ports: { list(): readonly PortRecord[] };
  /** Reads the ports of all switches; those of a switch that does not answer are left out. */
  readonly inspect: (signal: AbortSignal) => Promise<readonly PortInspection[]>;
  readonly clock: Pick<Clock, "monotonic">;
}

/** Open vSwitch updates its counters every five seconds. */
const MAX_AGE_MS = 2_500;
/** Prometheus waits ten seconds by default. */
const READ_MS = 4_000;

/** Traffic of each interface, in Prometheus' text format; a switch is read once for all who ask at the same time. */
export function interfacesPage({ ports, inspect, clock }: InterfacesPageOptions): () => Promise<string> {
  const read = async () => renderInterfaces(ports.list(), await inspect(AbortSignal.timeout(READ_MS)));
  const shared = new SharedRead({ read, maxAgeMs: MAX_AGE_MS, clock });
  return () => shared.get();
}

function renderInterfaces(
  records: readonly PortRecord[],
  inspected: readonly PortInspection[],
): Promise<string> {
  const ports = new Map(inspected.map((port) => [port.name, port]));
  // A registry for one reading: what is gone is not in the next one.
  const registry = new Registry();
  const options = <Name extends keyof typeof INTERFACE_METRICS>(name: Name) => {
    const { help, labels } = INTERFACE_METRICS[name];
    return { name, help, labelNames: labels, registers: [registry] };
  };
  const link = new Gauge(options("vhostuser_interface_link_up"));
  const packets = new Counter(options("vhostuser_interface_packets_total"));
  const bytes = new Counter(options("vhostuser_interface_bytes_total"));
  const dropped = new Counter(options("vhostuser_interface_dropped_packets_total"));
  for (const { portName, state, pool, podNamespace, podName, interfaceName } of records) {
    const port = ports.get(portName);
    if (state !== "attached" || port === undefined) continue;
    const labels = { pool, pod_namespace: podNamespace, pod_name: podName, interface: interfaceName };
    link.set(labels, port.link === "up" ? 1 : 0);
    if (port.traffic === undefined) continue;
    const { fromGuest, toGuest } = port.traffic;
    for (const [direction, traffic] of Object.entries({ "from-guest": fromGuest, "to-guest": toGuest })) {
      packets.inc({ ...labels, direction }, traffic.packets);
      bytes.inc({ ...labels, direction }, traffic.bytes);
      dropped.inc({ ...labels, direction }, traffic.dropped);
    }
  }
  return registry.metrics();
}
