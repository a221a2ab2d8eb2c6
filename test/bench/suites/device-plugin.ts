import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pluginSocketName } from "../../../src/device-plugin/plugin-socket-name.ts";
import { deviceId } from "../../../src/names/device-id.ts";
import { BRIDGES } from "../../cluster/switch.ts";
import { PluginClient } from "../../stand-in/kubelet/plugin-client.ts";
import { BenchNode, SOCKETS } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import type { SuiteDefinition } from "../measurement.ts";
import { timeWork } from "../timed-program.ts";

const DEVICES = 1000;
const ALLOCATIONS = 200;
const DIAL_MS = 5_000;
/** A daemon that has started does a first pass and a probe or two; memory is read after them. */
const SETTLE_MS = 3_000;

/** What the measurements share. */
export interface DevicePluginRig {
  readonly bench: Bench;
  /** Its daemon runs; nothing is allocated on it until Allocate is measured. */
  readonly node: BenchNode;
}

/** A daemon with a thousand devices. */
export async function openDevicePluginRig(bench: Bench): Promise<DevicePluginRig> {
  const node = await openNode(bench, "dp");
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
    { name: "daemon starts, until allocatable", unit: "ms", repetitions: 20, warmUp: 1, ours: restart },
    { name: "Allocate, 1 device", unit: "ms", repetitions: 150, warmUp: 20, ours: allocateTimed(1) },
    { name: "Allocate, 8 devices", unit: "ms", repetitions: 60, warmUp: 5, ours: allocateTimed(8) },
    {
      name: "daemon's memory, idle",
      unit: "MB",
      repetitions: 3,
      ours: ({ bench }) => onFreshNode(bench, settledMemory),
      shows: "median",
    },
    {
      name: `daemon's memory, after ${ALLOCATIONS} allocations`,
      unit: "MB",
      repetitions: 3,
      ours: ({ bench }) =>
        onFreshNode(bench, async (node) => {
          await allocateMany(node);
          return settledMemory(node);
        }),
      shows: "median",
    },
    {
      name: `daemon starts with ${ALLOCATIONS} allocations`,
      unit: "ms",
      repetitions: 3,
      ours: ({ bench }) =>
        onFreshNode(bench, async (node) => {
          await allocateMany(node);
          return restart({ node });
        }),
      shows: "median",
    },
  ],
};

function openNode({ run, ovs }: Bench, name: string): Promise<BenchNode> {
  const { databaseSocket } = ovs;
  return BenchNode.open(run, { name, bridge: BRIDGES.a, databaseSocket, devices: DEVICES });
}

function devices(count: number, from: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => deviceId("sockets", (from + index) % DEVICES));
}

/** A connection of its own to the plugin's socket, so that kubelet's bookkeeping is not part of the time. */
async function withPlugin<Result>(
  node: BenchNode,
  work: (plugin: PluginClient) => Promise<Result>,
): Promise<Result> {
  const socket = join(node.kubelet.paths.pluginDirectory, pluginSocketName(SOCKETS));
  const plugin = await PluginClient.connect(socket, DIAL_MS);
  try {
    return await work(plugin);
  } finally {
    plugin.close();
  }
}

function allocateTimed(count: number): (rig: DevicePluginRig) => Promise<number> {
  let next = 0;
  return ({ node }) =>
    withPlugin(node, async (plugin) => {
      await plugin.options(); // kubelet's connection is an old one, too
      const ids = devices(count, next);
      next += count;
      return timeWork(() => plugin.allocate(ids));
    });
}

async function firstList(plugin: PluginClient): Promise<void> {
  const first = Promise.withResolvers<number>();
  void plugin.listAndWatch((list) => first.resolve(list.length));
  const length = await first.promise;
  if (length !== DEVICES) throw new Error(`the first list has ${length} devices`);
}

async function allocateMany(node: BenchNode): Promise<void> {
  await withPlugin(node, async (plugin) => {
    for (let each = 0; each < ALLOCATIONS; each++) await plugin.allocate(devices(1, each));
  });
}

async function restart({ node }: Pick<DevicePluginRig, "node">): Promise<number> {
  await node.stopDaemon();
  return node.startDaemon();
}

async function settledMemory(node: BenchNode): Promise<number> {
  await delay(SETTLE_MS);
  return node.daemonMB();
}

/** Measures a daemon that did nothing before, on a node of its own. */
async function onFreshNode(bench: Bench, measure: (node: BenchNode) => Promise<number>): Promise<number> {
  const node = await openNode(bench, `dp${(performance.now() / 10).toFixed(0)}`);
  await node.startDaemon();
  const value = await measure(node);
  await node.close();
  return value;
}
