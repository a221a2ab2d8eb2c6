import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import type { PortInspection } from "../dataplane/port.ts";
import type { PortRecord } from "../records/port-record.ts";
import { INTERFACE_METRICS } from "./declared-interface-metrics.ts";
import { RecentAnswer } from "./recent-answer.ts";

/** What the page is made from. */
export interface InterfacesPageOptions {
  /** All attachments of the node. */
  readonly ports: { list(): readonly PortRecord[] };
  /** Reads the ports of all switches; those of a switch that does not answer are left out. */
  readonly inspect: (signal: AbortSignal) => Promise<readonly PortInspection[]>;
  /** A time in milliseconds that never steps; default the process' own. */
  readonly elapsedMs?: () => number;
}

/** Open vSwitch counts anew every five seconds; whoever asks more often gets what was read before. */
const FRESH_MS = 2_500;
/** Prometheus waits ten seconds unless told otherwise. */
const READ_MS = 4_000;

/** What went through each interface, in Prometheus' text format. However many ask, a switch is read once at a time. */
export class InterfacesPage {
  readonly #options: InterfacesPageOptions;
  readonly #page: RecentAnswer<string>;

  constructor(options: InterfacesPageOptions) {
    this.#options = options;
    this.#page = new RecentAnswer(() => this.#read(), FRESH_MS, options.elapsedMs);
  }

  /** The page. */
  text(): Promise<string> {
    return this.#page.get();
  }

  async #read(): Promise<string> {
    const inspected = await this.#options.inspect(AbortSignal.timeout(READ_MS));
    const byName = new Map(inspected.map((port) => [port.name, port]));
    const { gauge, counter, registry } = emptyMetrics();
    for (const record of this.#options.ports.list()) {
      const port = byName.get(record.portName);
      if (record.state !== "attached" || port === undefined) continue;
      const labels = {
        pool: record.pool,
        pod_namespace: record.podNamespace,
        pod_name: record.podName,
        interface: record.interfaceName,
      };
      gauge("vhostuser_interface_link_up").set(labels, port.link === "up" ? 1 : 0);
      if (port.traffic === undefined) continue;
      for (const [direction, traffic] of [
        ["from-guest", port.traffic.fromGuest],
        ["to-guest", port.traffic.toGuest],
      ] as const) {
        counter("vhostuser_interface_packets_total").inc({ ...labels, direction }, traffic.packets);
        counter("vhostuser_interface_bytes_total").inc({ ...labels, direction }, traffic.bytes);
        counter("vhostuser_interface_dropped_packets_total").inc({ ...labels, direction }, traffic.dropped);
      }
    }
    return registry.metrics();
  }
}

type InterfaceMetric = keyof typeof INTERFACE_METRICS;

/** A registry for one reading: what is gone is not in the next one. */
function emptyMetrics() {
  const registry = new Registry();
  const gauges = new Map<string, Gauge>();
  const counters = new Map<string, Counter>();
  for (const [name, { type, help, labels }] of Object.entries(INTERFACE_METRICS)) {
    const options = { name, help, labelNames: labels, registers: [registry] };
    if (type === "gauge") gauges.set(name, new Gauge(options));
    else counters.set(name, new Counter(options));
  }
  const found = <Metric>(metrics: ReadonlyMap<string, Metric>, name: InterfaceMetric): Metric => {
    const metric = metrics.get(name);
    if (metric === undefined) throw new Error(`no metric ${name} of this type`);
    return metric;
  };
  return {
    registry,
    gauge: (name: InterfaceMetric) => found(gauges, name),
    counter: (name: InterfaceMetric) => found(counters, name),
  };
}
