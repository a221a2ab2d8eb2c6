import { hashedPodInterfaceName } from "../../../src/names/interface-name.ts";
import type { NodeStatus, TraceAnswer, TracedInterface } from "../../../src/status/shape.ts";
import { nodeStatus, tracedInterface } from "./traced-interface.ts";

/** What an example says of one interface; the rest has no problems. */
interface Example {
  readonly pod: readonly [namespace: string, name: string];
  /** Of a VM's network the name is KubeVirt's hash, by default. */
  readonly name?: string;
  readonly network: string;
  readonly pool?: "sockets" | "routed";
  /** Pairs of queues. */
  readonly queues?: number;
  readonly dropped?: number;
  readonly vlan?: number;
  readonly address?: string;
  readonly changes?: (whole: TracedInterface) => Partial<TracedInterface>;
}

const BRIDGES = { sockets: "br-dpdk", routed: "blue" } as const;
const NOW = Date.UTC(2026, 0, 15, 9, 30);
const MINUTE = 60_000;

const BOOTING: Example["changes"] = ({ port }) =>
  port === undefined ? {} : { port: { ...port, link: "down" } };
const PORT_LOST: Example["changes"] = ({ portName }) => ({
  port: undefined,
  differences: [`port ${portName} belongs to another program`],
});

/** The pods of {@link exampleNode}. */
export const EXAMPLE_PODS: readonly Example[] = [
  {
    pod: ["shop", "virt-launcher-web-x7k2p"],
    network: "fast",
    queues: 4,
    vlan: 100,
    address: "10.20.0.17/24",
  },
  { pod: ["shop", "virt-launcher-web-x7k2p"], network: "storage", queues: 2, vlan: 200 },
  {
    pod: ["shop", "virt-launcher-db-9q4tz"],
    network: "fast",
    queues: 4,
    dropped: 12,
    vlan: 100,
    address: "10.20.0.18/24",
  },
  { pod: ["media", "virt-launcher-encoder-2mx8w"], network: "fast", vlan: 100, changes: BOOTING },
  { pod: ["lab", "virt-launcher-probe-k3d9f"], network: "fast", vlan: 100, changes: PORT_LOST },
  { pod: ["lab", "packet-generator"], name: "net1", network: "fast", queues: 2 },
  {
    pod: ["edge", "gateway-0"],
    name: "net1",
    network: "uplink",
    pool: "routed",
    queues: 2,
    address: "192.0.2.10/31",
  },
  { pod: ["edge", "gateway-0"], name: "net2", network: "fast", queues: 2 },
  {
    pod: ["edge", "gateway-1"],
    name: "net1",
    network: "uplink",
    pool: "routed",
    queues: 2,
    address: "192.0.2.12/31",
  },
];

/** A typical node: most of it healthy, a guest that boots, a port that another program removed. */
export function exampleNode(examples: readonly Example[] = EXAMPLE_PODS): NodeStatus {
  const interfaces = examples
    .map(trace)
    .map(({ holder: _, deviceInfo: __, differences: ___, ...one }) => one);
  const [pool] = nodeStatus().pools;
  if (pool === undefined) throw new Error("the example has a pool");
  const inUse = (name: string) => interfaces.filter((one) => one.pool === name).length;
  const registered = (name: string) => ({ name, registered: true, registrations: 1 });
  return nodeStatus({
    startedAt: NOW - 5 * 24 * 60 * MINUTE,
    at: NOW,
    lastPassAt: NOW - 11_000,
    pools: [
      { ...pool, bridge: BRIDGES.sockets, inUse: inUse("sockets") },
      {
        ...pool,
        name: "routed",
        resource: "vhostuser/routed",
        bridge: BRIDGES.routed,
        switch: { kind: "vpp", ready: true, version: "VPP 25.06" },
        devices: 16,
        healthy: 16,
        inUse: inUse("routed"),
      },
    ],
    hugepages: [{ size: "1Gi", total: 64, free: 30 }],
    resources: ["vhostuser/sockets", "vhostuser/routed", "vhostuser/dataplane"].map(registered),
    allocations: [],
    interfaces,
  });
}

/** {@link exampleNode} so many times 5 s later: each port has passed packets, no two as many. */
export function exampleLater(steps: number): NodeStatus {
  const status = exampleNode();
  const after = (packets: number, index: number) =>
    packets + steps * 1_310_000 * (index % 3 ? index : 0.0004);
  const interfaces = status.interfaces.map(({ port, ...one }, index) => {
    if (port?.traffic === undefined || port.link === "down") return { ...one, port };
    const { fromGuest, toGuest } = port.traffic;
    const moved = { ...fromGuest, packets: Math.round(after(fromGuest.packets, index)) };
    return { ...one, port: { ...port, traffic: { fromGuest: moved, toGuest } } };
  });
  return { ...status, at: status.at + steps * 5_000, interfaces };
}

/** The trace of a pod of {@link exampleNode}. */
export function exampleTrace(
  pod: { readonly namespace: string; readonly name: string },
  examples: readonly Example[] = EXAMPLE_PODS,
): TraceAnswer {
  const interfaces = examples
    .map(trace)
    .filter((one) => one.pod.name === pod.name && one.pod.namespace === pod.namespace);
  return { node: "worker-1", at: NOW, interfaces };
}

/** So many pods with an interface each. */
export function manyExamples(count: number): readonly Example[] {
  return Array.from({ length: count }, (_, index) => {
    const [whole = EXAMPLE_PODS[0], number] = [
      EXAMPLE_PODS[index % EXAMPLE_PODS.length],
      String(index).padStart(3, "0"),
    ];
    if (whole === undefined) throw new Error("there are examples");
    return { ...whole, pod: [whole.pod[0], `${whole.pod[1]}-${number}`] as const };
  });
}

function trace(
  {
    pod,
    network,
    name = hashedPodInterfaceName(network),
    pool = "sockets",
    queues = 1,
    dropped = 0,
    ...rest
  }: Example,
  index: number,
) {
  const [namespace, podName] = pod;
  const whole = tracedInterface();
  const id = `${index}`.padStart(4, "0");
  const device = `${pool}-0${id}`;
  const portName = `vhu7c41e09${id}d`;
  const allocation = `k3x9v2m7q1${podName.length.toString().padStart(2, "0")}${id}`;
  const inRoot = (path: string) =>
    path.replace("0123456789abcdef", allocation).replace("pod37a8eec1ce1", name);
  const { places, port } = whole;
  if (places === undefined || port === undefined) throw new Error("the example is whole");
  const moved = (place: typeof places.socket) => ({ ...place, path: inRoot(place.path) });
  const traffic = { packets: 48_211_907 + index * 1_733, bytes: 31_337_739_550, dropped: 0 };
  const one: TracedInterface = {
    ...whole,
    ...{ pod: { namespace, name: podName, uid: "" }, name, network, device, pool, portName, allocation },
    ...{ resource: `vhostuser/${pool}`, bridge: BRIDGES[pool], createdAt: NOW - (index + 3) * 47 * MINUTE },
    vmNetwork: name.startsWith("pod") ? network : undefined,
    vlan: rest.vlan === undefined ? undefined : { mode: "access", tag: rest.vlan, trunks: [] },
    addresses: rest.address === undefined ? undefined : [rest.address],
    mac: `02:00:00:00:1f:${id.slice(2)}`,
    podSocket: `/var/run/vhostuser/${pool}/${name}/vhost.sock`,
    places: {
      allocation: moved(places.allocation),
      directory: moved(places.directory),
      socket: moved(places.socket),
    },
    port: {
      ...{ ...port, name: portName, bridge: BRIDGES[pool], queuePairs: queues },
      // VPP keeps its counters elsewhere.
      traffic: pool === "routed" ? undefined : { fromGuest: traffic, toGuest: { ...traffic, dropped } },
    },
  };
  return { ...one, ...rest.changes?.(one) };
}
