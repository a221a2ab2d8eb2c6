/** Samples of one series, a minute apart, in promtool's notation (`0x10` is 0 eleven times, `0+1x10` counts). */
export type Series = Readonly<Record<string, string>>;

/** When an alert must fire, and when it must not although something happens. */
export interface AlertCase {
  readonly fires: Series;
  /** Minute at which it fires. */
  readonly at: number;
  /** Labels of the alert that fires, beside its name and severity. */
  readonly labels: Readonly<Record<string, string>>;
  /** Things that happen without being a reason, checked in the same minute. */
  readonly quiet: readonly Series[];
}

const ON = 'node="n1",instance="i"';
const UP = { [`vhostuser_build_info{${ON}}`]: "1x400" };
const NODE = { node: "n1", instance: "i" };

/** A gauge that has to stay at a value for a while. */
function gauge(
  metric: string,
  labels: Readonly<Record<string, string>>,
  [bad, good]: readonly [number, number],
  minutes: number,
): AlertCase {
  const own = Object.entries(labels).map(([name, value]) => `,${name}="${value}"`);
  const series = `${metric}{${ON}${own.join("")}}`;
  return {
    fires: { [series]: `${bad}x${minutes + 5}` },
    at: minutes + 2,
    labels: { ...NODE, ...labels },
    quiet: [
      { [series]: `${good}x${minutes + 5}` },
      // It was bad for a while and is not any more.
      { [series]: `${bad}x${minutes} ${good}x5` },
    ],
  };
}

/** A counter that has to grow: by so much in each minute. */
function counter(
  series: string,
  labels: Readonly<Record<string, string>>,
  perMinute: number,
  at: number,
): AlertCase {
  return {
    fires: { [series]: `0+${perMinute}x${at + 5}` },
    at,
    labels: { ...NODE, ...labels },
    // What happened before does not fire.
    quiet: [{ [series]: `7x${at + 5}` }],
  };
}

const errors = (code: string) => `vhostuser_errors_total{${ON},source="cni",code="${code}"}`;
const repairs = (kind: string) => `vhostuser_reconcile_repairs_total{${ON},kind="${kind}"}`;
const hugepages = (size: string) => `vhostuser_hugepages{${ON},size="${size}"}`;
const freeHugepages = (size: string) => `vhostuser_hugepages_free{${ON},size="${size}"}`;
const cni = (verb: string, code: string) =>
  `vhostuser_cni_requests_total{${ON},verb="${verb}",code="${code}"}`;
const allocations = (outcome: string) =>
  `vhostuser_allocation_duration_seconds_count{${ON},pool="sockets",outcome="${outcome}"}`;
const STARTED = `process_start_time_seconds{${ON}}`;
const pool = { pool: "sockets" };
const OF_POOL = `{${ON},pool="sockets"}`;
const OF_INTERFACE = `${ON},pool="sockets",pod_namespace="d",pod_name="vm",interface="net1",direction="to-guest"`;

const ofImport = (replica: string) =>
  `vhostuser_ipam_pool_handed_out_twice{namespace="n",instance="${replica}",pool="blue"}`;
const ipamClaims = (state: string) => `vhostuser_ipam_claims{namespace="n",instance="i",state="${state}"}`;
const ipamPool = (condition: string, replica: string) =>
  `vhostuser_ipam_pool_condition{namespace="n",pod="${replica}",pool="blue",condition="${condition}"}`;
const ipamLeading = (replica: string) => `vhostuser_ipam_controller_leading{namespace="n",pod="${replica}"}`;

/** One for each alert. */
export const ALERT_CASES: Readonly<Record<string, AlertCase>> = {
  VhostuserDaemonDown: {
    fires: {
      'vhostuser_build_info{node="n1",pod="a"}': "1x10 _x60",
      'vhostuser_build_info{node="n2",pod="b"}': "1x120",
      'vhostuser_build_info{job="d",node="n3",instance="a"}': "1x10",
      // Its next pod does not get further than its first step.
      'up{job="d",node="n3",instance="b"}': "_x12 0x108",
    },
    at: 100,
    labels: { node: "n3" },
    quiet: [
      // The node was removed, and another project's target on another node does not answer.
      {
        'vhostuser_build_info{job="d",node="n1",instance="a"}': "1x10",
        'vhostuser_build_info{job="d",node="n2",instance="b"}': "1x120",
        'up{job="else",node="n1",instance="c"}': "0x120",
      },
      // A rollout: another pod, and a gap of some minutes.
      {
        'vhostuser_build_info{node="n1",pod="a"}': "1x10 _x60",
        'vhostuser_build_info{node="n1",pod="b"}': "_x15 1x120",
      },
    ],
  },
  VhostuserDaemonRestarts: {
    fires: { ...UP, [`process_start_time_seconds{${ON}}`]: "0+60x30" },
    at: 20,
    labels: NODE,
    quiet: [
      { ...UP, [`process_start_time_seconds{${ON}}`]: "0x10 600x30" },
      // Another project's process.
      { 'process_start_time_seconds{instance="else"}': "0+60x30" },
    ],
  },
  VhostuserReconcileStale: {
    fires: {
      [`vhostuser_reconcile_last_ok_timestamp_seconds{${ON}}`]: "0+60x5 300x60",
      [`process_start_time_seconds{${ON}}`]: "0x60",
    },
    at: 25,
    labels: NODE,
    quiet: [
      {
        [`vhostuser_reconcile_last_ok_timestamp_seconds{${ON}}`]: "0+60x60",
        [`process_start_time_seconds{${ON}}`]: "0x60",
      },
      // It has just started.
      {
        [`vhostuser_reconcile_last_ok_timestamp_seconds{${ON}}`]: "0x60",
        [`process_start_time_seconds{${ON}}`]: "1200x60",
      },
    ],
  },
  VhostuserInternalErrors: {
    fires: { [errors("internal")]: "0x5 1x30" },
    at: 8,
    labels: { ...NODE, source: "cni" },
    quiet: [{ [errors("internal")]: "1x30" }, { [errors("busy")]: "0+1x30" }],
  },
  VhostuserDaemonBusy: {
    fires: { ...UP, [`nodejs_eventloop_busy_seconds_total{${ON}}`]: "0+57x60" },
    at: 40,
    labels: NODE,
    quiet: [
      { ...UP, [`nodejs_eventloop_busy_seconds_total{${ON}}`]: "0+30x60" },
      { 'nodejs_eventloop_busy_seconds_total{instance="else"}': "0+57x60" },
    ],
  },
  VhostuserDaemonMemory: {
    fires: { ...UP, [`process_resident_memory_bytes{${ON}}`]: "210000000x60" },
    at: 35,
    labels: NODE,
    quiet: [
      { ...UP, [`process_resident_memory_bytes{${ON}}`]: "120000000x60" },
      { 'process_resident_memory_bytes{instance="else"}': "900000000x60" },
    ],
  },
  VhostuserRecordsUnreadable: gauge("vhostuser_unreadable_records", {}, [1, 0], 5),
  VhostuserEventsLost: {
    ...counter(`vhostuser_events_total{${ON},outcome="failed"}`, { outcome: "failed" }, 2, 60),
    quiet: [{ [`vhostuser_events_total{${ON},outcome="posted"}`]: "0+9x60" }],
  },
  VhostuserNotRegistered: gauge("vhostuser_kubelet_registered", { resource: "vhostuser/sockets" }, [0, 1], 5),
  VhostuserAllocationsFail: {
    fires: { [allocations("failed")]: "0x3 4x30" },
    at: 6,
    labels: { ...NODE, ...pool },
    // One that failed: its controller made another pod.
    quiet: [{ [allocations("ok")]: "0+5x30" }, { [allocations("failed")]: "0x3 1x30" }],
  },
  VhostuserPoolNearlyFull: {
    fires: {
      [`vhostuser_pool_devices_in_use${OF_POOL}`]: "61x30",
      [`vhostuser_pool_devices${OF_POOL}`]: "64x30",
    },
    at: 20,
    labels: { ...NODE, ...pool },
    quiet: [
      { [`vhostuser_pool_devices_in_use${OF_POOL}`]: "32x30", [`vhostuser_pool_devices${OF_POOL}`]: "64x30" },
      // A pool that is not configured any more.
      { [`vhostuser_pool_devices_in_use${OF_POOL}`]: "3x30", [`vhostuser_pool_devices${OF_POOL}`]: "0x30" },
    ],
  },
  VhostuserClaimPortsNearlyFull: {
    fires: {
      [`vhostuser_pool_claim_ports_in_use${OF_POOL}`]: "30x30",
      [`vhostuser_pool_claim_ports${OF_POOL}`]: "32x30",
    },
    at: 20,
    labels: { ...NODE, ...pool },
    quiet: [
      {
        [`vhostuser_pool_claim_ports_in_use${OF_POOL}`]: "16x30",
        [`vhostuser_pool_claim_ports${OF_POOL}`]: "32x30",
      },
      // A pool that offers claims nothing any more.
      {
        [`vhostuser_pool_claim_ports_in_use${OF_POOL}`]: "3x30",
        [`vhostuser_pool_claim_ports${OF_POOL}`]: "0x30",
      },
    ],
  },
  VhostuserPodResourcesUnreadable: {
    fires: {
      [`vhostuser_pod_resources_duration_seconds_count{${ON},outcome="failed"}`]: "0+2x40",
      [`vhostuser_pod_resources_duration_seconds_count{${ON},outcome="ok"}`]: "9x40",
    },
    at: 30,
    labels: { ...NODE, outcome: "failed" },
    quiet: [
      {
        [`vhostuser_pod_resources_duration_seconds_count{${ON},outcome="failed"}`]: "0+1x40",
        [`vhostuser_pod_resources_duration_seconds_count{${ON},outcome="ok"}`]: "0+1x40",
      },
    ],
  },
  VhostuserUnreclaimed: gauge("vhostuser_unreclaimed", { what: "allocation" }, [1, 0], 30),
  VhostuserCniFails: {
    ...counter(cni("ADD", "bridge-missing"), { code: "bridge-missing" }, 1, 20),
    quiet: [
      { [cni("ADD", "ok")]: "0+5x30", [cni("ADD", "busy")]: "0+5x30", [cni("DEL", "internal")]: "0+5x30" },
      // One that failed, and went through when kubelet tried again.
      { [cni("ADD", "dataplane-timeout")]: "0x7 1x30" },
      { [cni("ADD", "invalid-network-config")]: "0+5x30" },
    ],
  },
  VhostuserNetworkRefused: {
    ...counter(cni("ADD", "ipam-failed"), { code: "ipam-failed" }, 1, 20),
    quiet: [
      { [cni("ADD", "bridge-missing")]: "0+5x30", [cni("ADD", "superseded")]: "0+5x30" },
      { [cni("ADD", "unknown-device")]: "0x12 1x30" },
    ],
  },
  VhostuserCniDelFails: {
    ...counter(cni("DEL", "record-unreadable"), { code: "record-unreadable" }, 1, 30),
    quiet: [
      { [cni("DEL", "ok")]: "0+5x40", [cni("ADD", "internal")]: "0+5x40" },
      { [cni("DEL", "record-unreadable")]: "0x16 1x40" },
    ],
  },
  VhostuserCniSlow: {
    fires: {
      [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="5"}`]: "0+1x60",
      [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="10"}`]: "0+9x60",
      [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="+Inf"}`]: "0+9x60",
    },
    at: 40,
    labels: { ...NODE, verb: "ADD" },
    quiet: [
      {
        [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="5"}`]: "0+9x60",
        [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="10"}`]: "0+9x60",
        [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="+Inf"}`]: "0+9x60",
      },
      // No request at all is no slow one.
      { [`vhostuser_cni_request_duration_seconds_bucket{${ON},verb="ADD",outcome="ok",le="+Inf"}`]: "9x60" },
    ],
  },
  VhostuserAddressesHeld: gauge("vhostuser_ports", { ...pool, state: "releasing" }, [1, 0], 60),
  VhostuserSwitchDown: {
    fires: {
      [`vhostuser_pool_devices_healthy${OF_POOL}`]: "0x30",
      [`vhostuser_pool_devices${OF_POOL}`]: "64x30",
    },
    at: 8,
    labels: { ...NODE, ...pool },
    quiet: [
      {
        [`vhostuser_pool_devices_healthy${OF_POOL}`]: "64x30",
        [`vhostuser_pool_devices${OF_POOL}`]: "64x30",
      },
      // Another alert's reason.
      {
        [`vhostuser_pool_devices_healthy${OF_POOL}`]: "0x30",
        [`vhostuser_pool_devices${OF_POOL}`]: "64x30",
        [`vhostuser_root_usable{${ON}}`]: "0x30",
      },
      {
        [`vhostuser_pool_devices_healthy${OF_POOL}`]: "0x3 64x30",
        [`vhostuser_pool_devices${OF_POOL}`]: "64x30",
      },
    ],
  },
  VhostuserSwitchFlaps: {
    fires: {
      [STARTED]: "0x60",
      [`vhostuser_switch_connections_total{${ON},switch="ovs-dpdk"}`]: "0x60",
      [`vhostuser_switch_connections_total{${ON},switch="vpp"}`]: "1x5 2x5 3x5 4x5 5x5 6x60",
    },
    at: 50,
    labels: NODE,
    quiet: [
      {
        [STARTED]: "0x60",
        [`vhostuser_switch_connections_total{${ON},switch="ovs-dpdk"}`]: "1x20 2x60",
        [`vhostuser_switch_connections_total{${ON},switch="vpp"}`]: "0x60",
      },
      // The daemon itself starts again and again, and connects each time.
      {
        [STARTED]: "0x5 300x5 600x5 900x5 1200x5 1500x5 1800x20",
        [`vhostuser_switch_connections_total{${ON},switch="ovs-dpdk"}`]:
          "1x4 0 1x4 0 1x4 0 1x4 0 1x4 0 1x4 0 1x20",
        [`vhostuser_switch_connections_total{${ON},switch="vpp"}`]: "0x60",
      },
    ],
  },
  VhostuserSwitchCallsFail: {
    ...counter(
      `vhostuser_dataplane_call_duration_seconds_count{${ON},call="ensure-port",outcome="failed"}`,
      { call: "ensure-port" },
      1,
      20,
    ),
    quiet: [
      { [`vhostuser_dataplane_call_duration_seconds_count{${ON},call="probe",outcome="ok"}`]: "0+20x30" },
      // Three that failed at one time are no reason yet.
      {
        [`vhostuser_dataplane_call_duration_seconds_count{${ON},call="probe",outcome="failed"}`]: "0x12 3x30",
      },
    ],
  },
  VhostuserPortsUnsettled: gauge("vhostuser_ports_unsettled", pool, [1, 0], 10),
  VhostuserPortFailed: {
    ...gauge("vhostuser_switch_ports", { bridge: "br0", state: "failed" }, [1, 0], 5),
    quiet: [{ [`vhostuser_switch_ports{${ON},bridge="br0",state="waiting"}`]: "3x30" }],
  },
  VhostuserPortsDisturbed: {
    fires: { [repairs("port")]: "0+1x100", [STARTED]: "0x100" },
    at: 90,
    labels: { ...NODE, kind: "port" },
    quiet: [
      { [repairs("port")]: "0x40 2x60", [STARTED]: "0x100" },
      { [repairs("late-del")]: "0+1x100", [STARTED]: "0x100" },
      // The node was restarted: its file system of sockets was empty.
      { [repairs("directory")]: "_x60 0 9x40", [STARTED]: "_x60 3600x40" },
      // VPP was, and has forgotten all ports.
      {
        [repairs("port")]: "0x60 64x40",
        [STARTED]: "0x100",
        [`vhostuser_switch_connections_total{${ON},switch="vpp"}`]: "1x60 2x40",
      },
    ],
  },
  VhostuserCleanUps: {
    ...counter(repairs("late-del"), { kind: "late-del" }, 1, 120),
    quiet: [
      { [repairs("late-del")]: "0x5 9x130" },
      { [repairs("port")]: "0+1x130" },
      // Nothing was left behind: a guest's driver is not up yet.
      { [repairs("silent-guest")]: "0+1x130" },
    ],
  },
  VhostuserLinkDown: gauge("vhostuser_link_down_longest_seconds", pool, [4000, 60], 5),
  VhostuserAnnouncementsFail: {
    fires: { [`vhostuser_announcements_total{${ON},outcome="failed"}`]: "0x5 1x30" },
    at: 8,
    labels: NODE,
    quiet: [{ [`vhostuser_announcements_total{${ON},outcome="ok"}`]: "0+3x30" }],
  },
  VhostuserInterfaceDrops: {
    fires: {
      [`vhostuser_interface_dropped_packets_total{${OF_INTERFACE},pod="daemon"}`]: "0+6000x40",
      [`vhostuser_interface_packets_total{${OF_INTERFACE},pod="daemon"}`]: "0+60000x40",
    },
    at: 30,
    labels: {
      ...{ ...NODE, ...pool, pod_namespace: "d", pod_name: "vm" },
      ...{ interface: "net1", direction: "to-guest" },
    },
    quiet: [
      {
        [`vhostuser_interface_dropped_packets_total{${OF_INTERFACE}}`]: "0+100x40",
        [`vhostuser_interface_packets_total{${OF_INTERFACE}}`]: "0+60000x40",
      },
      // Half of next to nothing.
      {
        [`vhostuser_interface_dropped_packets_total{${OF_INTERFACE}}`]: "0+60x40",
        [`vhostuser_interface_packets_total{${OF_INTERFACE}}`]: "0+60x40",
      },
    ],
  },
  VhostuserRootUnusable: gauge("vhostuser_root_usable", {}, [0, 1], 1),
  VhostuserRootBytes: {
    fires: { [`vhostuser_root_free_bytes{${ON}}`]: "10x30", [`vhostuser_root_size_bytes{${ON}}`]: "100x30" },
    at: 15,
    labels: NODE,
    quiet: [
      { [`vhostuser_root_free_bytes{${ON}}`]: "90x30", [`vhostuser_root_size_bytes{${ON}}`]: "100x30" },
      // Unknown.
      { [`vhostuser_root_free_bytes{${ON}}`]: "0x30", [`vhostuser_root_size_bytes{${ON}}`]: "0x30" },
    ],
  },
  VhostuserDirectoryTampered: {
    fires: { [errors("directory-unsafe")]: "0x5 1x30" },
    at: 8,
    labels: { ...NODE, source: "cni" },
    quiet: [{ [errors("busy")]: "0+1x30" }],
  },
  VhostuserHugepagesMissing: {
    fires: {
      [hugepages("2Mi")]: "0x30",
      [hugepages("1Gi")]: "0x30",
    },
    at: 15,
    labels: NODE,
    quiet: [
      {
        [hugepages("2Mi")]: "0x30",
        [hugepages("1Gi")]: "8x30",
      },
    ],
  },
  VhostuserHugepagesUsedUp: {
    fires: {
      [hugepages("2Mi")]: "512x60",
      [freeHugepages("2Mi")]: "0x60",
    },
    at: 40,
    labels: NODE,
    quiet: [
      {
        [hugepages("2Mi")]: "512x60",
        [freeHugepages("2Mi")]: "1x60",
      },
      // Another alert's business.
      {
        [hugepages("2Mi")]: "0x60",
        [freeHugepages("2Mi")]: "0x60",
      },
    ],
  },
  VhostuserCniDraRuntimeLost: {
    fires: { [`vhostuser_cni_dra_runtime_connected{${ON}}`]: "0x20" },
    at: 10,
    labels: NODE,
    quiet: [{ [`vhostuser_cni_dra_runtime_connected{${ON}}`]: "1x10 0x3 1x10" }],
  },
  VhostuserCniDraDelStuck: {
    fires: { [`vhostuser_cni_dra_stuck_dels{${ON}}`]: "2x20" },
    at: 10,
    labels: NODE,
    quiet: [{ [`vhostuser_cni_dra_stuck_dels{${ON}}`]: "0x20" }],
  },
  VhostuserIpamPoolExhausted: {
    fires: { [ipamPool("Exhausted", "a")]: "1x30", [ipamPool("Exhausted", "b")]: "0x30" },
    at: 10,
    labels: { namespace: "n", pool: "blue" },
    quiet: [{ [ipamPool("Exhausted", "a")]: "0x30" }, { [ipamPool("NearlyFull", "a")]: "1x30" }],
  },
  VhostuserIpamPoolNearlyFull: {
    fires: { [ipamPool("NearlyFull", "a")]: "1x30", [ipamPool("Exhausted", "a")]: "0x30" },
    at: 20,
    labels: { namespace: "n", pool: "blue" },
    quiet: [
      { [ipamPool("NearlyFull", "a")]: "0x30" },
      // Another alert fires.
      { [ipamPool("NearlyFull", "a")]: "1x30", [ipamPool("Exhausted", "a")]: "1x30" },
    ],
  },
  VhostuserIpamHandedOutTwice: {
    fires: { [ofImport("a")]: "0x5 1x30", [ofImport("b")]: "_x5 0x30" },
    at: 7,
    labels: { namespace: "n", pool: "blue" },
    quiet: [{ [ofImport("a")]: "0x30" }, { [ipamPool("Imported", "a")]: "0x30" }],
  },
  VhostuserIpamClaimsWaiting: {
    fires: { [ipamClaims("refused")]: "2x30", [ipamClaims("ready")]: "5x30" },
    at: 10,
    labels: { namespace: "n", state: "refused" },
    quiet: [
      { [ipamClaims("ready")]: "5x30" },
      // New ones, which have their addresses soon.
      { [ipamClaims("pending")]: "0x5 3x3 0x30" },
    ],
  },
  VhostuserIpamBlockQuarantined: {
    fires: {
      'vhostuser_ipam_blocks{namespace="n",instance="i",owner="Node",state="Quarantined"}': "2x120",
      'vhostuser_ipam_blocks{namespace="n",instance="i",owner="Shared",state="Quarantined"}': "0x120",
    },
    at: 70,
    labels: { namespace: "n" },
    quiet: [
      { 'vhostuser_ipam_blocks{namespace="n",instance="i",owner="Node",state="Bound"}': "2x120" },
      // One that is deleted after its cooldown.
      { 'vhostuser_ipam_blocks{namespace="n",instance="i",owner="Node",state="Quarantined"}': "2x30 0x90" },
    ],
  },
  VhostuserIpamControllerNotLeading: {
    fires: { [ipamLeading("a")]: "1x5 0x30", [ipamLeading("b")]: "0x5 _x30" },
    at: 20,
    labels: { namespace: "n" },
    quiet: [
      // Another replica has taken over.
      { [ipamLeading("a")]: "1x5 0x30", [ipamLeading("b")]: "0x5 1x30" },
      // A rollout.
      { [ipamLeading("a")]: "1x15 _x30", [ipamLeading("b")]: "_x17 1x30" },
    ],
  },
};
