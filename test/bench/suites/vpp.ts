import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createBridge } from "../../../src/dataplane/vpp/bridges.ts";
import { VppRequests } from "../../../src/dataplane/vpp/requests.ts";
import { readView } from "../../../src/dataplane/vpp/view.ts";
import { connectVpp, type VppConnection } from "../../../src/protocols/vpp-api/connection.ts";
import { ANY_INDEX, dumpBridgeDomains } from "../../../src/protocols/vpp-api/messages.ts";
import { startRealVpp, startVppStandIn, type VppProcess } from "../../integration/vpp-process.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import { BenchNode } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { type BenchPod, CniCalls } from "../cni-calls.ts";
import { calmMemory, idlePercent, REST_TIMES, TRIAL_REST } from "../daemon-at-rest.ts";
import { atMost, type SuiteDefinition } from "../measurement.ts";
import { timeWork } from "../timed-program.ts";

const BRIDGE = "blue";
/** Ports that VPP forgets and gets again. */
const PORTS = 100;
/** Ports of a large node that is left alone. */
const IDLE_PORTS = 500;
const REBUILD_LIMIT_MS = 30_000;
/** Looking costs VPP time, too. */
const POLL_MS = 10;

const binary = process.env["VPP_BIN"];
/** Figures of the one say nothing of the other, so each has its name. */
const where = binary === undefined ? "VPP's stand-in" : "VPP";

/** A VPP with one bridge domain, a daemon on it, and pods that hold a device. */
export interface VppBenchRig {
  readonly vpp: VppProcess;
  readonly node: BenchNode;
  readonly cni: CniCalls;
  readonly pod: BenchPod;
  /** Attachments that stay. */
  crowd: number;
  readonly isTrial: boolean;
}

/** Starts VPP, the one of `VPP_BIN` where it names one, and a daemon with devices enough. */
export async function openVppRig({ run, isTrial }: Bench): Promise<VppBenchRig> {
  const directory = join(run.directory, "vpp");
  const vpp = await (binary === undefined
    ? startVppStandIn(run, directory)
    : startRealVpp(run, binary, directory));
  await makeBridge(vpp);
  const node = await BenchNode.open(run, {
    name: "vpp-node",
    dataplane: { type: "vpp", apiSocket: vpp.apiSocket, bridge: BRIDGE },
    devices: IDLE_PORTS + 1,
  });
  await node.startDaemon();
  const netns = await addNetworkNamespace(run, "vpp");
  const cni = await CniCalls.open(node, netns.path);
  return { vpp, node, cni, pod: await cni.admit(), crowd: 0, isTrial: isTrial === true };
}

/** CNI verbs through the real executable and daemon, and what the daemon does when VPP has forgotten everything. */
export const vppSuite: SuiteDefinition<VppBenchRig> = {
  name: "vpp",
  peer: null,
  measurements: [
    {
      name: `ADD in ${where}`,
      unit: "ms",
      repetitions: 100,
      warmUp: 10,
      ours: async ({ cni, pod }) => {
        const sandbox = cni.sandbox(pod);
        const { ms } = await cni.add(sandbox);
        await cni.del(sandbox);
        return ms;
      },
    },
    {
      name: `DEL in ${where}`,
      unit: "ms",
      repetitions: 100,
      warmUp: 10,
      ours: async ({ cni, pod }) => {
        const sandbox = cni.sandbox(pod);
        await cni.add(sandbox);
        return cni.del(sandbox);
      },
    },
    {
      name: `${PORTS} ports again after a restart of ${where}`,
      unit: "ms",
      repetitions: 10,
      warmUp: 1,
      prepare: (rig) => attach(rig, PORTS),
      ours: rebuild,
      aim: atMost(1000, "< 1 s"),
    },
    {
      name: `daemon's CPU, idle, ${IDLE_PORTS} ports in ${where}`,
      unit: "%",
      repetitions: 1,
      prepare: (rig) => attach(rig, IDLE_PORTS),
      ours: async ({ node, isTrial }) => {
        const rest = isTrial ? TRIAL_REST : REST_TIMES;
        await calmMemory(node, rest);
        return idlePercent(node, rest);
      },
      shows: "median",
      aim: atMost(0.5, "< 0.5 %"),
    },
  ],
};

/** Until so many pods have a port, which stays. */
async function attach(rig: VppBenchRig, ports: number): Promise<void> {
  for (; rig.crowd < (rig.isTrial ? 2 : ports); rig.crowd += 1) {
    await rig.cni.add(rig.cni.sandbox(await rig.cni.admit()));
  }
}

/** From when VPP answers and has its bridge domain until all ports are in it. */
async function rebuild({ vpp, crowd }: VppBenchRig): Promise<number> {
  await vpp.kill();
  await vpp.start();
  await makeBridge(vpp);
  return timeWork(() =>
    withVpp(vpp, async (connection, limit) => {
      while ((await members(connection, limit)) < crowd) await delay(POLL_MS, undefined, { signal: limit });
    }),
  );
}

/** Interfaces in the bridge domains; the port's last order, which sets it up, is in the same write. */
async function members(connection: VppConnection, limit: AbortSignal): Promise<number> {
  const all = { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX };
  const bridges = await connection.dump(dumpBridgeDomains, all, limit);
  return bridges.reduce((sum, { sw_if_details }) => sum + sw_if_details.length, 0);
}

function makeBridge(vpp: VppProcess): Promise<void> {
  return withVpp(vpp, async (connection, limit) => {
    const requests = new VppRequests(connection, limit);
    await createBridge(requests, await readView(requests), BRIDGE);
  });
}

async function withVpp<Value>(
  { apiSocket }: VppProcess,
  work: (connection: VppConnection, limit: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const limit = AbortSignal.timeout(REBUILD_LIMIT_MS);
  const connection = await connectVpp({ path: apiSocket }, limit);
  try {
    return await work(connection, limit);
  } finally {
    connection.close();
  }
}
