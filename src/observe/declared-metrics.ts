/** One metric; docs/metrics.md says when to alert on it. */
export interface DeclaredMetric {
  readonly type: "gauge" | "counter" | "histogram";
  /** Base unit, which the name carries too; absent for a count of things. */
  readonly unit?: "seconds" | "bytes";
  /** Never a pod, container, device or port: the number of series must not grow with the load. */
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds of a histogram's buckets, in `unit`. */
  readonly buckets?: readonly number[];
}

/** Allocate is to answer within 10 ms at the 99th percentile. */
const FAST = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5];
/** A CNI verb has 30 s. */
const SWITCHED = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** A reconciler's pass has 60 s. */
const PASS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];

/** Every metric there is. Names and labels are an interface: dashboards and alerts of others hang on them. */
export const METRICS = {
  vhostuser_pool_devices: {
    type: "gauge",
    labels: ["pool"],
    help: "Devices of the pool, healthy or not.",
  },
  vhostuser_pool_devices_healthy: {
    type: "gauge",
    labels: ["pool"],
    help: "Devices of the pool that kubelet may give to pods: all while its switch is fit for ports, else none.",
  },
  vhostuser_pool_devices_in_use: {
    type: "gauge",
    labels: ["pool"],
    help: "Devices of the pool that an allocation holds, until it is reclaimed.",
  },
  vhostuser_allocations_total: {
    type: "counter",
    labels: ["pool", "code"],
    help: "Containers that kubelet asked devices for; code is ok or that of the failure.",
  },
  vhostuser_allocation_duration_seconds: {
    type: "histogram",
    unit: "seconds",
    labels: ["pool", "outcome"],
    help: "Time that an allocation for one container took.",
    buckets: FAST,
  },
  vhostuser_reclaims_total: {
    type: "counter",
    labels: ["pool"],
    help: "Allocations removed because no pod holds them any more.",
  },
  vhostuser_kubelet_registered: {
    type: "gauge",
    labels: ["resource"],
    help: "1 while the resource is registered with kubelet, else 0.",
  },
  vhostuser_kubelet_registrations_total: {
    type: "counter",
    labels: ["resource"],
    help: "Registrations with kubelet that it took: one at start, one more for each restart of kubelet.",
  },
  vhostuser_pod_resources_duration_seconds: {
    type: "histogram",
    unit: "seconds",
    labels: ["outcome"],
    help: "Time that kubelet took to tell which pod holds which device (PodResources).",
    buckets: FAST,
  },
  vhostuser_cni_requests_total: {
    type: "counter",
    labels: ["verb", "code"],
    help: "Requests of the container runtime; code is ok or that of the failure.",
  },
  vhostuser_cni_request_duration_seconds: {
    type: "histogram",
    unit: "seconds",
    labels: ["verb", "outcome"],
    help: "Time that a request of the container runtime took.",
    buckets: SWITCHED,
  },
  vhostuser_dataplane_call_duration_seconds: {
    type: "histogram",
    unit: "seconds",
    labels: ["call", "outcome"],
    help: "Time that a call of the switch took; a probe that found it unfit has the outcome unfit.",
    buckets: SWITCHED,
  },
  vhostuser_switch_connections_total: {
    type: "counter",
    labels: ["switch"],
    help: "Connections made to switches: one each at start, one more for each time it was lost.",
  },
  vhostuser_ports: {
    type: "gauge",
    labels: ["pool", "state"],
    help: "Recorded ports that are being attached, are attached, are yet to be removed from the switch, or have addresses to give back to an IPAM plugin.",
  },
  vhostuser_switch_ports: {
    type: "gauge",
    labels: ["bridge", "state"],
    help: "Our ports in the switch when it was last asked: connected to a VM or pod, waiting for one, or failed. Absent while the switch does not answer.",
  },
  vhostuser_ports_unsettled: {
    type: "gauge",
    labels: ["pool"],
    help: "Recorded ports that could not be made, repaired or removed at the last try.",
  },
  vhostuser_links_down: {
    type: "gauge",
    labels: ["pool"],
    help: "Attached ports whose guest does not run its queues, when the switch was last asked. Absent while no switch answers.",
  },
  vhostuser_link_down_longest_seconds: {
    type: "gauge",
    unit: "seconds",
    labels: ["pool"],
    help: "How long that has been so for the one of them that is down longest, as far as this daemon has seen.",
  },
  vhostuser_reconcile_passes_total: {
    type: "counter",
    labels: ["outcome"],
    help: "Reconcile passes; failed where one of their stages failed, for example because kubelet could not be read.",
  },
  vhostuser_reconcile_pass_duration_seconds: {
    type: "histogram",
    unit: "seconds",
    labels: ["outcome"],
    help: "Duration of a reconcile pass.",
    buckets: PASS,
  },
  vhostuser_reconcile_last_ok_timestamp_seconds: {
    type: "gauge",
    unit: "seconds",
    labels: [],
    help: "Unix time of the end of the last reconcile pass without a failed stage; 0 before the first.",
  },
  vhostuser_reconcile_repairs_total: {
    type: "counter",
    labels: ["kind"],
    help: "Repairs by the reconciler. Removed: the port of an ADD that did not complete (unfinished-add), of a DEL that was answered before its port was gone (late-del), of a pod that is gone without a DEL (missing-del), a port without a record (orphan-port), what a port left behind in the switch (stray), a directory without a record (unknown-directory). Restored after something else removed or changed it: directories of an allocation (directory), a device's device-info file (device-info), a port (port). Reconnected because the VM's guest was never seen: a port (silent-guest).",
  },
  vhostuser_unreclaimed: {
    type: "gauge",
    labels: ["what"],
    help: "What no pod holds and the last reconcile pass could not remove: allocations, ports, or directories without a record.",
  },
  vhostuser_announcements_total: {
    type: "counter",
    labels: ["outcome"],
    help: "Guests that came up and were announced to the network; failed where the switch did not take a single frame.",
  },
  vhostuser_errors_total: {
    type: "counter",
    labels: ["source", "code"],
    help: "Failures by their code in docs/errors.md. One cause may count in several sources: each counts what it saw.",
  },
  vhostuser_sockets_mended_total: {
    type: "counter",
    labels: [],
    help: "Sockets whose mode kept the pool's group out, and that were opened for it.",
  },
  vhostuser_root_size_bytes: {
    type: "gauge",
    unit: "bytes",
    labels: [],
    help: "Bytes that the root's file system can hold; 0 where nobody can tell.",
  },
  vhostuser_root_free_bytes: {
    type: "gauge",
    unit: "bytes",
    labels: [],
    help: "Bytes of them that are free.",
  },
  vhostuser_hugepages: {
    type: "gauge",
    labels: ["size"],
    help: "Hugepages of the node, which switch and guests share; size as in Kubernetes' resource names.",
  },
  vhostuser_hugepages_free: {
    type: "gauge",
    labels: ["size"],
    help: "Hugepages that nobody has taken.",
  },
  vhostuser_events_total: {
    type: "counter",
    labels: ["outcome"],
    help: "Kubernetes events: those that the API server took (posted), that are part of a series told of later (merged), that found the queue full (dropped), or that the API server did not take (failed).",
  },
  vhostuser_unreadable_records: {
    type: "gauge",
    labels: [],
    help: "Damaged records that were set aside at a start and whose files are still there.",
  },
  vhostuser_build_info: {
    type: "gauge",
    labels: ["version", "node_version"],
    help: "Always 1; the labels say which release runs, on which Node.",
  },
  process_resident_memory_bytes: {
    type: "gauge",
    unit: "bytes",
    labels: [],
    help: "Resident memory of the daemon.",
  },
  process_cpu_seconds_total: {
    type: "counter",
    unit: "seconds",
    labels: [],
    help: "Processor time of the daemon, user and system.",
  },
  process_start_time_seconds: {
    type: "gauge",
    unit: "seconds",
    labels: [],
    help: "Unix time at which the daemon started.",
  },
  process_open_fds: {
    type: "gauge",
    labels: [],
    help: "Open file descriptors of the daemon.",
  },
  nodejs_eventloop_lag_seconds: {
    type: "gauge",
    unit: "seconds",
    labels: [],
    help: "Time that work had to wait for the event loop, when this was read.",
  },
  nodejs_eventloop_busy_seconds_total: {
    type: "counter",
    unit: "seconds",
    labels: [],
    help: "Time during which the event loop was not idle.",
  },
} as const satisfies Readonly<Record<string, DeclaredMetric>>;

type Declared = typeof METRICS;

/** Names of the metrics of one type. */
export type MetricName<Type extends DeclaredMetric["type"] = DeclaredMetric["type"]> = {
  [Name in keyof Declared]: Declared[Name]["type"] extends Type ? Name : never;
}[keyof Declared];

/** A value for each label of a metric. */
export type LabelsOf<Name extends MetricName> = Readonly<Record<Declared[Name]["labels"][number], string>>;
