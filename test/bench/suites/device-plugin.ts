import { BRIDGES } from "../../cluster/switch.ts";
import type { PluginClient } from "../../stand-in/kubelet/plugin-client.ts";
import { BenchNode, type BenchNodeOptions } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { idlePercent, settledMemory } from "../daemon-at-rest.ts";
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

const DEVICES = 1000;
const FEW = DEVICES / 10;
const AT_ONCE = 64;
const BURSTS = 15;
const WARM_UP_BURSTS = 5;
/** Gives back at once what no pod holds, where the giving back is measured. */
const RECLAIM = { intervalSeconds: 1, graceSeconds: 1 };

/** What the measurements share. */
export interface DevicePluginRig {
  readonly bench: Bench;
  /** Its daemon runs; nothing is allocated on it until Allocate is measured. */
  readonly node: BenchNode;
}

/** A daemon with a thousand devices. */
export async function openDevicePluginRig(bench: Bench): Promise<DevicePluginRig> {
  const node = await openNode(bench, { name: "dp" });
  await node.startDaemon();
  return { bench, node };
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
      ours: ({ node }) => withPlugin(node, (plugin) => timeWork(() => firstList(plugin))),
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
      ours: (rig) => onFreshNode(rig, {}, settledMemory),
      shows: "median",
      aim: atMost(100, "< 100 MB"),
    },
    {
      name: `daemon's memory, ${DEVICES} allocated`,
      unit: "MB",
      repetitions: 3,
      ours: (rig) =>
        onFreshNode(rig, {}, async (node) => {
          await allocate(node, DEVICES);
          return settledMemory(node);
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
          await allocate(node, DEVICES);
          return idlePercent(node);
        }),
      shows: "median",
      aim: atMost(0.5, "< 0.5 %"),
    },
    {
      name: `CPU for a device's life, of ${FEW}`,
      unit: "ms",
      repetitions: 3,
      ours: lifeOf(FEW),
      shows: "median",
    },
    {
      name: `CPU for a device's life, of ${DEVICES}`,
      unit: "ms",
      repetitions: 3,
      ours: lifeOf(DEVICES),
      shows: "median",
    },
    {
      name: `daemon registers, ${FEW} allocated`,
      unit: "ms",
      repetitions: 3,
      ours: startWith(FEW),
      shows: "median",
    },
    {
      name: `daemon registers, ${DEVICES} allocated`,
      unit: "ms",
      repetitions: 3,
      ours: startWith(DEVICES),
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
  { run, ovs }: Bench,
  options: Pick<BenchNodeOptions, "name" | "reclaim">,
): Promise<BenchNode> {
  const { databaseSocket } = ovs;
  return BenchNode.open(run, { ...options, bridge: BRIDGES.a, databaseSocket, devices: DEVICES });
}

/** Measures a daemon that did nothing before, on a node of its own. */
async function onFreshNode<Result>(
  { bench }: DevicePluginRig,
  options: Pick<BenchNodeOptions, "reclaim">,
  measure: (node: BenchNode) => Promise<Result>,
): Promise<Result> {
  const node = await openNode(bench, { ...options, name: `dp${(performance.now() / 10).toFixed(0)}` });
  // The daemon gives nothing back as long as kubelet seems not to know its pods.
  await node.kubelet.admitPod({ namespace: "default", name: "another", containers: [{ name: "c" }] });
  await node.startUntilRegistered();
  const result = await measure(node);
  await node.close();
  return result;
}

async function firstList(plugin: PluginClient): Promise<void> {
  const first = Promise.withResolvers<number>();
  void plugin.listAndWatch((list) => first.resolve(list.length));
  const length = await first.promise;
  if (length !== DEVICES) throw new Error(`the first list has ${length} devices`);
}

function allocate(node: BenchNode, count: number): Promise<unknown> {
  return withPlugin(node, (plugin) => allocateInBursts(plugin, deviceIds(count, 0, DEVICES), AT_ONCE));
}

function allocateTimed(count: number): (rig: DevicePluginRig) => Promise<number> {
  let next = 0;
  return ({ node }) =>
    withPlugin(node, (plugin) => {
      const ids = deviceIds(count, next, DEVICES);
      next += count;
      return timeWork(() => plugin.allocate(ids));
    });
}

/** A percentile of all calls in a row of bursts on one connection, as kubelet has one. */
function allocateAtOnce(percent: number): (rig: DevicePluginRig) => Promise<number> {
  const bursts = (plugin: PluginClient, count: number) =>
    allocateInBursts(plugin, deviceIds(count * AT_ONCE, 0, DEVICES), AT_ONCE);
  return (rig) =>
    onFreshNode(rig, {}, (node) =>
      withPlugin(node, async (plugin) => {
        await bursts(plugin, WARM_UP_BURSTS);
        return percentileOf(await bursts(plugin, BURSTS), percent);
      }),
    );
}

function trafficOfAll(rig: DevicePluginRig): Promise<StreamTraffic> {
  return onFreshNode(rig, { reclaim: RECLAIM }, (node) =>
    withPlugin(node, (plugin) =>
      streamTraffic(plugin, async () => {
        await allocateInBursts(plugin, deviceIds(DEVICES, 0, DEVICES), AT_ONCE);
        await untilFreed(node);
      }),
    ),
  );
}

function lifeOf(count: number): (rig: DevicePluginRig) => Promise<number> {
  return (rig) =>
    onFreshNode(rig, { reclaim: RECLAIM }, (node) =>
      cpuPerDevice(node, deviceIds(count, 0, DEVICES), AT_ONCE),
    );
}

/** Milliseconds of a start that finds so many allocations, whose directories and files are looked at first. */
function startWith(count: number): (rig: DevicePluginRig) => Promise<number> {
  return (rig) =>
    onFreshNode(rig, {}, async (node) => {
      await allocate(node, count);
      await node.stopDaemon();
      return node.startUntilRegistered();
    });
}
