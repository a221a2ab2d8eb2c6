import type { DeclaredMetric } from "./declared-metrics.ts";

const OF_INTERFACE = ["pool", "pod_namespace", "pod_name", "interface"] as const;
const OF_DIRECTION = [...OF_INTERFACE, "direction"] as const;

/**
 * The metrics of `/metrics/interfaces`, a page of its own because their number grows with the pods: at most one set for
 * each device of the pools. Their labels do not collide with those that Prometheus gives a target (`namespace`, `pod`).
 */
export const INTERFACE_METRICS = {
  vhostuser_interface_link_up: {
    type: "gauge",
    labels: OF_INTERFACE,
    help: "1 while the guest runs the queues of the interface, else 0.",
  },
  vhostuser_interface_packets_total: {
    type: "counter",
    labels: OF_DIRECTION,
    help: "Packets that went through the interface.",
  },
  vhostuser_interface_bytes_total: {
    type: "counter",
    unit: "bytes",
    labels: OF_DIRECTION,
    help: "Bytes that went through the interface.",
  },
  vhostuser_interface_dropped_packets_total: {
    type: "counter",
    labels: OF_DIRECTION,
    help: "Packets that the switch took and did not pass on; to the guest, mostly because it did not take them from its queues.",
  },
} as const satisfies Readonly<Record<string, DeclaredMetric>>;
