import { join } from "node:path";
import { NODE_FLAGS } from "../../../scripts/build/bundle-program.ts";
import { BRIDGES } from "../../cluster/switch.ts";
import { startChild } from "../../machine/child.ts";
import type { PluginClient } from "../../stand-in/kubelet/plugin-client.ts";
import { BenchNode, type BenchNodeOptions } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { calmMemory, idlePercent, settledMemory } from "../daemon-at-rest.ts";
import {
  allocateInBursts,
  cpuPerDevice,
  deviceIds,
  furtherLists,
  pluginSocket,
  untilFreed,
  withPlugin,
} from "../device-load.ts";
import { atMost, ratioAtMost, type SuiteDefinition } from "../measurement.ts";
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
  /** Socket of a plugin that does nothing: bare-plugin.ts. */
  readonly bareSocket: string;
  /** Its daemon did nothing but what the measurements since {@link loadNode} had it do. */
  loaded: BenchNode;
}

/** A daemon with a thousand devices, and a plugin in grpc-js that does nothing. */
export async function openDevicePluginRig(bench: Bench): Promise<DevicePluginRig> {
  const sizes = bench.isTrial === true ? TRIAL : FULL;
  const node = await openNode({ bench, sizes }, { name: "dp" });
  await node.startDaemon();
  const bareSocket = join(node.directory, "bare.sock");
  await startChild(bench.run, {
    name: "bare-plugin",
    command: process.execPath,
    args: [...NODE_FLAGS.daemon, join(import.meta.dirname, "../bare-plugin.ts"), bareSocket],
  });
  return { bench, sizes, node, bareSocket, loaded: node };
}

/** kubelet's calls over real sockets, with durable records, and what the daemon takes. */
export const devicePluginSuite: SuiteDefinition<DevicePluginRig> = {
  name: "device-plugin",
  peer: "a plugin in grpc-js with the daemon's Node flags whose Allocate does nothing",
  measurements: [
    {
      name: `ListAndWatch, first list of ${DEVICES}`,
      unit: "ms",
      repetitions: 30,
      warmUp: 3,
      ours: ({ node, sizes }) =>
        withPlugin(pluginSocket(node), (plugin) => timeWork(() => firstList(plugin, sizes.devices))),
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
      ours: ({ node }) => restart(node),
      aim: atMost(250, "<= 250 ms"),
      aimP95: atMost(300, "<= 300 ms"),
    },
    {
      name: "daemon starts, until allocatable",
      unit: "ms",
      repetitions: 10,
      ours: async ({ node }) => {
        await node.stopDaemon();
        return node.startDaemon();
      },
    },
    {
      name: "Allocate, 1 device",
      unit: "ms",
      repetitions: 200,
      warmUp: 20,
      ...allocateTimed(1),
      aimP99: atMost(5, "<= 5 ms"),
    },
    {
      name: `Allocate, ${AT_ONCE} at once`,
      unit: "ms",
      repetitions: 15,
      warmUp: 5,
      ...allocateTimed(AT_ONCE),
      aimP99: ratioAtMost(1.6),
    },
    {
      name: "Allocate, 8 devices",
      unit: "ms",
      repetitions: 60,
      warmUp: 5,
      ours: ({ node, sizes }) => {
        const ids = deviceIds(8, 0, sizes.devices);
        return withPlugin(pluginSocket(node), (plugin) => timeWork(() => plugin.allocate(ids)));
      },
    },
    {
      name: "daemon's memory, none allocated",
      unit: "MB",
      repetitions: 1,
      prepare: loadNode,
      ours: ({ loaded, sizes }) => settledMemory(loaded, sizes.rest),
      shows: "median",
      aim: atMost(90, "<= 90 MB"),
    },
    {
      name: `daemon's memory, ${DEVICES} allocated`,
      unit: "MB",
      repetitions: 1,
      prepare: ({ loaded, sizes }) => allocate(loaded, sizes, sizes.devices),
      ours: ({ loaded, sizes }) => settledMemory(loaded, sizes.rest),
      shows: "median",
      aim: atMost(90, "<= 90 MB"),
    },
    {
      name: `daemon's memory, ${DEVICES} allocated, half a minute later`,
      unit: "MB",
      repetitions: 1,
      ours: ({ loaded, sizes }) => calmMemory(loaded, sizes.rest),
      shows: "median",
      aim: atMost(90, "<= 90 MB"),
    },
    {
      name: `daemon's CPU, idle, ${DEVICES} allocated`,
      unit: "%",
      repetitions: 1,
      ours: ({ loaded, sizes }) => idlePercent(loaded, sizes.rest),
      shows: "median",
      aim: atMost(0.3, "<= 0.3 %"),
    },
    {
      name: `daemon registers, ${DEVICES} allocated`,
      unit: "ms",
      repetitions: 3,
      ours: ({ loaded }) => restart(loaded),
      shows: "median",
    },
    {
      name: `daemon registers, ${FEW} allocated`,
      unit: "ms",
      repetitions: 3,
      prepare: async (rig) => {
        await loadNode(rig);
        await allocate(rig.loaded, rig.sizes, rig.sizes.few);
      },
      ours: ({ loaded }) => restart(loaded),
      shows: "median",
    },
    {
      name: `CPU for a device's life, of ${FEW}`,
      unit: "ms",
      repetitions: 1,
      ours: lifeOf("few"),
      shows: "median",
    },
    {
      name: `CPU for a device's life, of ${DEVICES}`,
      unit: "ms",
      repetitions: 1,
      ours: lifeOf("devices"),
      shows: "median",
    },
    {
      name: `${DEVICES} allocated and freed: further lists`,
      unit: "messages",
      repetitions: 1,
      ours: listsWhileAllAreFreed,
      shows: "median",
      aim: atMost(0, "0"),
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

/** A daemon that did nothing before, on a node of its own. */
async function freshNode(
  rig: DevicePluginRig,
  options: Pick<BenchNodeOptions, "reclaim"> = {},
): Promise<BenchNode> {
  const node = await openNode(rig, { ...options, name: `dp${(performance.now() / 10).toFixed(0)}` });
  // The daemon gives nothing back as long as kubelet seems not to know its pods.
  await node.kubelet.admitPod({ namespace: "default", name: "another", containers: [{ name: "c" }] });
  await node.startUntilRegistered();
  return node;
}

async function loadNode(rig: DevicePluginRig): Promise<void> {
  if (rig.loaded !== rig.node) await rig.loaded.close();
  rig.loaded = await freshNode(rig);
}

async function restart(node: BenchNode): Promise<number> {
  await node.stopDaemon();
  return node.startUntilRegistered();
}

async function firstList(plugin: PluginClient, devices: number): Promise<void> {
  const first = Promise.withResolvers<number>();
  void plugin.listAndWatch((list) => first.resolve(list.length));
  const length = await first.promise;
  if (length !== devices) throw new Error(`the first list has ${length} devices`);
}

async function allocate(node: BenchNode, { devices }: Sizes, count: number): Promise<void> {
  await withPlugin(pluginSocket(node), (plugin) =>
    allocateInBursts(plugin, deviceIds(count, 0, devices), AT_ONCE),
  );
}

/** So many calls that start together on one connection, as kubelet has one: milliseconds of each. */
function allocateTimed(atOnce: number) {
  let next = 0;
  const take = (socket: string, { devices }: Sizes) =>
    withPlugin(socket, (plugin) => {
      next += atOnce;
      return allocateInBursts(plugin, deviceIds(atOnce, next, devices), atOnce);
    });
  return {
    ours: ({ node, sizes }: DevicePluginRig) => take(pluginSocket(node), sizes),
    peer: ({ bareSocket, sizes }: DevicePluginRig) => take(bareSocket, sizes),
  };
}

/** Lists beyond the first while all devices are allocated and freed. */
async function listsWhileAllAreFreed(rig: DevicePluginRig): Promise<number> {
  const { devices, reclaim } = rig.sizes;
  const node = await freshNode(rig, { reclaim });
  const lists = await withPlugin(pluginSocket(node), (plugin) =>
    furtherLists(plugin, async () => {
      await allocateInBursts(plugin, deviceIds(devices, 0, devices), AT_ONCE);
      await untilFreed(node);
    }),
  );
  await node.close();
  return lists;
}

function lifeOf(count: "few" | "devices"): (rig: DevicePluginRig) => Promise<number> {
  return async (rig) => {
    const { sizes } = rig;
    const node = await freshNode(rig, { reclaim: sizes.reclaim });
    const ms = await cpuPerDevice(node, deviceIds(sizes[count], 0, sizes.devices), AT_ONCE);
    await node.close();
    return ms;
  };
}
