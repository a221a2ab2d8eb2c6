import { BRIDGES } from "../../cluster/switch.ts";
import type { PluginClient } from "../../stand-in/kubelet/plugin-client.ts";
import { BenchNode, type BenchNodeOptions } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { calmMemory, idlePercent, settledMemory } from "../daemon-at-rest.ts";
import {
  allocateInBursts,
  cpuPerDevice,
  deviceIds,
  type StreamTraffic,
  streamTraffic,
  untilFreed,
  withPlugin,
} from "../device-load.ts";
import { atMost, type SuiteDefinition } from "../measurement.ts";
import { percentileOf } from "../spread.ts";
import { timeWork } from "../timed-program.ts";
import { FULL, type Sizes, TRIAL } from "./device-plugin-sizes.ts";

const DEVICES = FULL.devices;
const FEW = FULL.few;
const AT_ONCE = 64;

/** What the measurements share. */
export interface DevicePluginRig {
  readonly bench: Bench;
  readonly sizes: Sizes;
  /** Its daemon runs; nothing is allocated on it until Allocate is measured. */
  readonly node: BenchNode;
}

/** A daemon with a thousand devices. */
export async function openDevicePluginRig(bench: Bench): Promise<DevicePluginRig> {
  const sizes = bench.isTrial === true ? TRIAL : FULL;
  const node = await openNode({ bench, sizes }, { name: "dp" });
  await node.startDaemon();
  return { bench, sizes, node };
}

/** kubelet's calls over real sockets, with durable records, and what the daemon takes. */
export const devicePluginSuite: SuiteDefinition<DevicePluginRig> = {
  name: "device-plugin",
  peer: null,
  measurements: [
    {
      name: `ListAndWatch, first list of ${DEVICES}`,
      unit: "ms",
      repetitions: 30,
      warmUp: 3,
      ours: ({ node, sizes }) =>
        withPlugin(node, (plugin) => timeWork(() => firstList(plugin, sizes.devices))),
    },
    {
      name: `${DEVICES} allocated and freed: further lists`,
      unit: "messages",
      repetitions: 1,
      ours: async (rig) => (await trafficOfAll(rig)).messages,
      shows: "median",
      aim: atMost(0, "0"),
    },
    {
      name: `${DEVICES} allocated and freed: their size`,
      unit: "bytes",
      repetitions: 1,
      ours: async (rig) => (await trafficOfAll(rig)).bytes,
      shows: "median",
      aim: atMost(0, "0"),
    },
    {
      name: "kubelet restarts, until allocatable",
      unit: "ms",
      repetitions: 20,
      warmUp: 1,
      ours: async ({ node }) => {
        await node.kubelet.stop();
        return timeWork(async () => {
          await node.kubelet.start();
          await node.untilHealthy();
        });
      },
    },
    {
      name: "daemon starts, until registered",
      unit: "ms",
      repetitions: 20,
      warmUp: 1,
      ours: async ({ node }) => {
        await node.stopDaemon();
        return node.startUntilRegistered();
      },
      aim: atMost(300, "<= 300 ms"),
    },
    {
      name: "daemon starts, until allocatable",
      unit: "ms",
      repetitions: 20,
      warmUp: 1,
      ours: async ({ node }) => {
        await node.stopDaemon();
        return node.startDaemon();
      },
    },
    { name: "Allocate, 1 device", unit: "ms", repetitions: 150, warmUp: 20, ours: allocateTimed(1) },
    { name: "Allocate, 8 devices", unit: "ms", repetitions: 60, warmUp: 5, ours: allocateTimed(8) },
    {
      name: `Allocate, ${AT_ONCE} at once, median`,
      unit: "ms",
      repetitions: 3,
      ours: allocateAtOnce(50),
      shows: "median",
    },
    {
      name: `Allocate, ${AT_ONCE} at once, p99`,
      unit: "ms",
      repetitions: 3,
      ours: allocateAtOnce(99),
      shows: "median",
      aim: atMost(10, "< 10 ms"),
    },
    {
      name: "daemon's memory, none allocated",
      unit: "MB",
      repetitions: 3,
      ours: (rig) => onFreshNode(rig, {}, (node) => settledMemory(node, rig.sizes.rest)),
      shows: "median",
      aim: atMost(100, "< 100 MB"),
    },
    {
      name: `daemon's memory, ${DEVICES} allocated`,
      unit: "MB",
      repetitions: 3,
      ours: (rig) =>
        onFreshNode(rig, {}, async (node) => {
          await allocate(node, rig.sizes, rig.sizes.devices);
          return settledMemory(node, rig.sizes.rest);
        }),
      shows: "median",
      aim: atMost(100, "< 100 MB"),
    },
    {
      name: `daemon's memory, ${DEVICES} allocated, half a minute later`,
      unit: "MB",
      repetitions: 1,
      ours: (rig) =>
        onFreshNode(rig, {}, async (node) => {
          await allocate(node, rig.sizes, rig.sizes.devices);
          return calmMemory(node, rig.sizes.rest);
        }),
      shows: "median",
      aim: atMost(100, "< 100 MB"),
    },
    {
      name: `daemon's CPU, idle, ${DEVICES} allocated`,
      unit: "%",
      repetitions: 1,
      ours: (rig) =>
        onFreshNode(rig, {}, async (node) => {
          await allocate(node, rig.sizes, rig.sizes.devices);
          return idlePercent(node, rig.sizes.rest);
        }),
      shows: "median",
      aim: atMost(0.5, "< 0.5 %"),
    },
    {
      name: `CPU for a device's life, of ${FEW}`,
      unit: "ms",
      repetitions: 3,
      ours: lifeOf("few"),
      shows: "median",
    },
    {
      name: `CPU for a device's life, of ${DEVICES}`,
      unit: "ms",
      repetitions: 3,
      ours: lifeOf("devices"),
      shows: "median",
    },
    {
      name: `daemon registers, ${FEW} allocated`,
      unit: "ms",
      repetitions: 3,
      ours: startWith("few"),
      shows: "median",
    },
    {
      name: `daemon registers, ${DEVICES} allocated`,
      unit: "ms",
      repetitions: 3,
      ours: startWith("devices"),
      shows: "median",
    },
  ],
  growths: [
    {
      name: "a life's growth by ten times the devices",
      of: `CPU for a device's life, of ${DEVICES}`,
      over: `CPU for a device's life, of ${FEW}`,
      aim: atMost(2, "<= 2"),
    },
    {
      name: "a start's growth by ten times the devices",
      of: `daemon registers, ${DEVICES} allocated`,
      over: `daemon registers, ${FEW} allocated`,
      aim: atMost(10, "<= 10"),
    },
  ],
};

function openNode(
  { bench, sizes }: Pick<DevicePluginRig, "bench" | "sizes">,
  options: Pick<BenchNodeOptions, "name" | "reclaim">,
): Promise<BenchNode> {
  const { run, ovs } = bench;
  const { databaseSocket } = ovs;
  return BenchNode.open(run, {
    ...options,
    dataplane: { type: "ovs-dpdk", database: databaseSocket, bridge: BRIDGES.a },
    devices: sizes.devices,
  });
}

/** Measures a daemon that did nothing before, on a node of its own. */
async function onFreshNode<Result>(
  rig: DevicePluginRig,
  options: Pick<BenchNodeOptions, "reclaim">,
  measure: (node: BenchNode) => Promise<Result>,
): Promise<Result> {
  const node = await openNode(rig, { ...options, name: `dp${(performance.now() / 10).toFixed(0)}` });
  // The daemon gives nothing back as long as kubelet seems not to know its pods.
  await node.kubelet.admitPod({ namespace: "default", name: "another", containers: [{ name: "c" }] });
  await node.startUntilRegistered();
  const result = await measure(node);
  await node.close();
  return result;
}

async function firstList(plugin: PluginClient, devices: number): Promise<void> {
  const first = Promise.withResolvers<number>();
  void plugin.listAndWatch((list) => first.resolve(list.length));
  const length = await first.promise;
  if (length !== devices) throw new Error(`the first list has ${length} devices`);
}

function allocate(node: BenchNode, { devices }: Sizes, count: number): Promise<unknown> {
  return withPlugin(node, (plugin) => allocateInBursts(plugin, deviceIds(count, 0, devices), AT_ONCE));
}

function allocateTimed(count: number): (rig: DevicePluginRig) => Promise<number> {
  let next = 0;
  return ({ node, sizes }) =>
    withPlugin(node, (plugin) => {
      const ids = deviceIds(count, next, sizes.devices);
      next += count;
      return timeWork(() => plugin.allocate(ids));
    });
}

/** A percentile of all calls in a row of bursts on one connection, as kubelet has one. */
function allocateAtOnce(percent: number): (rig: DevicePluginRig) => Promise<number> {
  return (rig) => {
    const { devices, warmUpBursts, bursts } = rig.sizes;
    const take = (plugin: PluginClient, count: number) =>
      allocateInBursts(plugin, deviceIds(count * AT_ONCE, 0, devices), AT_ONCE);
    return onFreshNode(rig, {}, (node) =>
      withPlugin(node, async (plugin) => {
        await take(plugin, warmUpBursts);
        return percentileOf(await take(plugin, bursts), percent);
      }),
    );
  };
}

function trafficOfAll(rig: DevicePluginRig): Promise<StreamTraffic> {
  const { devices, reclaim } = rig.sizes;
  return onFreshNode(rig, { reclaim }, (node) =>
    withPlugin(node, (plugin) =>
      streamTraffic(plugin, async () => {
        await allocateInBursts(plugin, deviceIds(devices, 0, devices), AT_ONCE);
        await untilFreed(node);
      }),
    ),
  );
}

function lifeOf(count: "few" | "devices"): (rig: DevicePluginRig) => Promise<number> {
  return (rig) => {
    const { sizes } = rig;
    return onFreshNode(rig, { reclaim: sizes.reclaim }, (node) =>
      cpuPerDevice(node, deviceIds(sizes[count], 0, sizes.devices), AT_ONCE),
    );
  };
}

/** Milliseconds of a start that finds so many allocations, whose directories and files are checked first. */
function startWith(count: "few" | "devices"): (rig: DevicePluginRig) => Promise<number> {
  return (rig) =>
    onFreshNode(rig, {}, async (node) => {
      await allocate(node, rig.sizes, rig.sizes[count]);
      await node.stopDaemon();
      return node.startUntilRegistered();
    });
}
