/** One metric; docs/metrics.md says when to alert on it. */
export interface DeclaredMetric {
  readonly type: "gauge" | "counter" | "histogram";
  /** Never a pod, container, device or port: the number of series must not grow with the load. */
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds of a histogram's buckets, in the unit that its name ends with. */
  readonly buckets?: readonly number[];
}

/** Metrics of one page, by name. */
export type DeclaredMetrics = Readonly<Record<string, DeclaredMetric>>;

/** A gauge of a page. */
export const gauge = <const Labels extends readonly string[]>(labels: Labels, help: string) =>
  ({ type: "gauge", labels, help }) as const;
/** A counter of a page. */
export const counter = <const Labels extends readonly string[]>(labels: Labels, help: string) =>
  ({ type: "counter", labels, help }) as const;
/** A histogram of a page. */
export const histogram = <const Labels extends readonly string[]>(
  labels: Labels,
  buckets: readonly number[],
  help: string,
) => ({ type: "histogram", labels, help, buckets }) as const;

/** Allocate is to answer within 10 ms at the 99th percentile. */
export const FAST = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5];
/** A CNI verb has 30 s. */
const SWITCHED = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** A reconciler pass has 60 s. */
const PASS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];

/** What a program costs, whichever it is. */
export const PROCESS_METRICS = {
  process_resident_memory_bytes: gauge([], "Resident memory of the program."),
  process_cpu_seconds_total: counter([], "Processor time of the program, user and system."),
  process_start_time_seconds: gauge([], "Unix time at which the program started."),
  process_open_fds: gauge([], "Open file descriptors of the program."),
  nodejs_eventloop_lag_seconds: gauge([], "Time that work had to wait for the event loop at this scrape."),
  nodejs_eventloop_busy_seconds_total: counter([], "Time during which the event loop was not idle."),
} satisfies DeclaredMetrics;

/** Every metric of `/metrics` of the daemon. Names and labels are API: dashboards and alerts of others depend on them. */
export const METRICS = {
  vhostuser_pool_devices: gauge(["pool"], "Devices of the pool, healthy or not."),
  vhostuser_pool_devices_healthy: gauge(
    ["pool"],
    "Devices of the pool that kubelet may give to pods: all while its switch is ready, else none.",
  ),
  vhostuser_pool_devices_in_use: gauge(
    ["pool"],
    "Devices of the pool that an allocation holds, until it is reclaimed.",
  ),
  vhostuser_pool_claim_ports: gauge(["pool"], "Ports of the pool that ResourceClaims may have."),
  vhostuser_pool_claim_ports_in_use: gauge(
    ["pool"],
    "Ports of the pool that ResourceClaims hold, until they are reclaimed.",
  ),
  vhostuser_claim_calls_total: counter(
    ["call", "code"],
    "Claims that kubelet wanted prepared or unprepared; code is ok or that of the failure.",
  ),
  vhostuser_claim_call_duration_seconds: histogram(
    ["call", "outcome"],
    SWITCHED,
    "Duration of the preparation of a claim, or of its end.",
  ),
  vhostuser_allocations_total: counter(
    ["pool", "code"],
    "Containers for which kubelet requested devices; code is ok or that of the failure.",
  ),
  vhostuser_allocation_duration_seconds: histogram(
    ["pool", "outcome"],
    FAST,
    "Duration of an allocation for one container.",
  ),
  vhostuser_reclaims_total: counter(["pool"], "Allocations removed because no pod holds them any more."),
  vhostuser_kubelet_registered: gauge(
    ["resource"],
    "1 while the resource is registered with kubelet, else 0.",
  ),
  vhostuser_kubelet_registrations_total: counter(
    ["resource"],
    "Registrations with kubelet: one at start, one more for each restart of kubelet.",
  ),
  vhostuser_pod_resources_duration_seconds: histogram(
    ["outcome"],
    FAST,
    "Duration of a read of kubelet's PodResources, which pod holds which device.",
  ),
  vhostuser_cni_requests_total: counter(
    ["verb", "code"],
    "Requests of the container runtime; code is ok or that of the failure.",
  ),
  vhostuser_cni_request_duration_seconds: histogram(
    ["verb", "outcome"],
    SWITCHED,
    "Duration of a request of the container runtime.",
  ),
  vhostuser_cni_unknown_keys_total: counter(
    ["verb"],
    "Keys of network configurations that are not known and were ignored; ADD and STATUS count them.",
  ),
  vhostuser_dataplane_call_duration_seconds: histogram(
    ["call", "outcome"],
    SWITCHED,
    "Duration of a call to the switch; a probe that found it unreachable or misconfigured has the outcome not-ready.",
  ),
  vhostuser_switch_connections_total: counter(
    ["switch"],
    "Connections made to switches: one each at start, one more for each time it was lost.",
  ),
  vhostuser_ports: gauge(
    ["pool", "state"],
    "Recorded ports that are being attached, are attached, are to be removed from the switch, or have addresses to release to an IPAM plugin.",
  ),
  vhostuser_switch_ports: gauge(
    ["bridge", "state"],
    "Our ports in the switch when it was last asked: connected to a VM or pod, waiting for one, or failed. Absent while the switch does not answer.",
  ),
  vhostuser_ports_unsettled: gauge(
    ["pool"],
    "Recorded ports that could not be made, repaired or removed at the last try.",
  ),
  vhostuser_links_down: gauge(
    ["pool"],
    "Attached ports whose guest does not run its queues, when the switch was last asked. Absent while no switch answers.",
  ),
  vhostuser_link_down_longest_seconds: gauge(
    ["pool"],
    "For how long that has been so for the port that is down longest, as far as this daemon has seen.",
  ),
  vhostuser_reconcile_passes_total: counter(
    ["outcome"],
    "Reconcile passes; failed where one of their stages failed, for example because kubelet could not be read.",
  ),
  vhostuser_reconcile_pass_duration_seconds: histogram(["outcome"], PASS, "Duration of a reconcile pass."),
  vhostuser_reconcile_last_ok_timestamp_seconds: gauge(
    [],
    "Unix time of the end of the last reconcile pass without a failed stage; 0 before the first.",
  ),
  vhostuser_reconcile_repairs_total: counter(
    ["kind"],
    "Repairs by the reconciler. Removed: the port of an ADD that did not complete (unfinished-add), of a DEL that was answered before its port was gone (late-del), of a pod that is gone without a DEL (missing-del), a port without a record (orphan-port), what a port left behind in the switch (stray), a directory without a record (unknown-directory). Restored after something else removed or changed it: directories of an allocation (directory), a device's device-info file (device-info), a port (port). Reconnected because the VM's guest was never seen: a port (silent-guest).",
  ),
  vhostuser_unreclaimed: gauge(
    ["what"],
    "What no pod holds and the last reconcile pass could not remove: allocations, ports, or directories without a record.",
  ),
  vhostuser_announcements_total: counter(
    ["outcome"],
    "Guests that came up and were announced to the network; failed where the switch accepted no frame.",
  ),
  vhostuser_guest_address_requests_total: counter(
    ["outcome"],
    "Requests of guests by DHCP, DHCPv6 and router solicitation on Open vSwitch: answered; dropped from a guest that asks too often, without those that the switch drops meanwhile; ignored, which need no answer.",
  ),
  vhostuser_errors_total: counter(
    ["source", "code"],
    "Failures by their code in docs/errors.md. One cause may count in several sources: each counts what it saw.",
  ),
  vhostuser_sockets_opened_total: counter(
    [],
    "Sockets whose mode excluded the pool's group, and that were opened for it.",
  ),
  vhostuser_root_usable: gauge(
    [],
    "1 while the daemon's root is the file system that the node has mounted, with its flags; else 0.",
  ),
  vhostuser_root_size_bytes: gauge([], "Size of the root's file system in bytes; 0 where it cannot be read."),
  vhostuser_root_free_bytes: gauge([], "Free bytes of the root's file system."),
  vhostuser_hugepages: gauge(
    ["size"],
    "Hugepages of the node, which switch and guests share; size as in Kubernetes' resource names.",
  ),
  vhostuser_hugepages_free: gauge(["size"], "Hugepages that are free."),
  vhostuser_events_total: counter(
    ["outcome"],
    "Kubernetes events: accepted by the API server (posted), counted in a series (merged), discarded because too many waited (dropped), or not accepted (failed).",
  ),
  vhostuser_unreadable_records: gauge([], "Records that could not be read at start and were set aside."),
  vhostuser_build_info: gauge(
    ["version", "node_version"],
    "Always 1; the labels say which release runs, on which Node.",
  ),
  ...PROCESS_METRICS,
} satisfies DeclaredMetrics;

const OF_INTERFACE = ["pool", "pod_namespace", "pod_name", "interface"] as const;
const OF_DIRECTION = [...OF_INTERFACE, "direction"] as const;

/**
 * The metrics of `/metrics/interfaces`, a page of its own because their number grows with the pods: at most one set for
 * each device. Their labels do not collide with those that Prometheus gives a target (`namespace`, `pod`).
 */
export const INTERFACE_METRICS = {
  vhostuser_interface_link_up: gauge(
    OF_INTERFACE,
    "1 while the guest runs the queues of the interface, else 0.",
  ),
  vhostuser_interface_packets_total: counter(OF_DIRECTION, "Packets of the interface."),
  vhostuser_interface_bytes_total: counter(OF_DIRECTION, "Bytes of the interface."),
  vhostuser_interface_dropped_packets_total: counter(
    OF_DIRECTION,
    "Packets that the switch received and dropped; to the guest, mostly because the guest's queues were full.",
  ),
} satisfies DeclaredMetrics;

/** Names of the metrics of one type on a page. */
export type MetricName<
  Declared extends DeclaredMetrics,
  Type extends DeclaredMetric["type"] = DeclaredMetric["type"],
> = string &
  {
    [Name in keyof Declared]: Declared[Name]["type"] extends Type ? Name : never;
  }[keyof Declared];

/** A value for each label of a metric. */
export type LabelsOf<Metric extends DeclaredMetric> = Readonly<Record<Metric["labels"][number], string>>;
