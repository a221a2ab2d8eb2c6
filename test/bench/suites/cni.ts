import { stat } from "node:fs/promises";
import { join } from "node:path";
import { BRIDGES } from "../../cluster/switch.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import { BenchNode } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { type BenchPod, CniCalls, EXECUTABLE } from "../cni-calls.ts";
import { atMost, ratioAtMost, type SuiteDefinition } from "../measurement.ts";
import { timeProgram, timeWork } from "../timed-program.ts";
import { VsctlCalls } from "../vsctl-calls.ts";

const AT_ONCE = 20;
const CROWD = 200;
const BRIDGE = BRIDGES.a;

/** What the measurements share. */
export interface CniRig {
  readonly node: BenchNode;
  readonly cni: CniCalls;
  readonly vsctl: VsctlCalls;
  /** Pods that wait for their sandbox; the first is what single calls use. */
  readonly pods: readonly [BenchPod, ...BenchPod[]];
}

/** A daemon with devices enough, and pods that hold some of them. */
export async function openCniRig({ run, ovs }: Bench): Promise<CniRig> {
  const { databaseSocket } = ovs;
  const devices = AT_ONCE + CROWD;
  const node = await BenchNode.open(run, { name: "cni", bridge: BRIDGE, databaseSocket, devices });
  await node.startDaemon();
  const netns = await addNetworkNamespace(run, "bench");
  const cni = await CniCalls.open(node, netns.path);
  const pods: [BenchPod, ...BenchPod[]] = [await cni.admit()];
  while (pods.length < AT_ONCE) pods.push(await cni.admit());
  const directory = join(run.directory, "peer");
  return { node, cni, pods, vsctl: new VsctlCalls({ databaseSocket, bridge: BRIDGE, directory }) };
}

/** CNI verbs through the real executable, daemon and switch, against ovs-vsctl as a process. */
export const cniSuite: SuiteDefinition<CniRig> = {
  name: "cni",
  peer: "ovs-vsctl as a process with its default wait, on the same switch; for VERSION, node -e 0",
  measurements: [
    {
      name: "ADD",
      unit: "ms",
      repetitions: 100,
      warmUp: 10,
      ours: addAlone,
      peer: peerAddAlone,
      aim: ratioAtMost(1),
    },
    {
      name: "ADD, a daemon's first",
      unit: "ms",
      repetitions: 10,
      ours: async (rig) => {
        await rig.node.stopDaemon();
        await rig.node.startDaemon();
        return addAlone(rig);
      },
      peer: peerAddAlone,
      shows: "median",
    },
    {
      name: "DEL",
      unit: "ms",
      repetitions: 100,
      warmUp: 10,
      ours: async ({ cni, pods: [pod] }) => {
        const sandbox = cni.sandbox(pod);
        await cni.add(sandbox);
        return cni.del(sandbox);
      },
      peer: async ({ vsctl }) => {
        const port = vsctl.newPort();
        await vsctl.add(port);
        return vsctl.del(port);
      },
      aim: ratioAtMost(1),
    },
    {
      name: "ADD repeated",
      unit: "ms",
      repetitions: 60,
      warmUp: 5,
      ours: async ({ cni, pods: [pod] }) => {
        const sandbox = cni.sandbox(pod);
        await cni.add(sandbox);
        const { ms } = await cni.add(sandbox);
        await cni.del(sandbox);
        return ms;
      },
      peer: async ({ vsctl }) => {
        const port = vsctl.newPort();
        await vsctl.add(port);
        const ms = await vsctl.add(port, "--may-exist");
        await vsctl.del(port);
        return ms;
      },
      aim: ratioAtMost(1),
    },
    {
      name: "CHECK",
      unit: "ms",
      repetitions: 60,
      warmUp: 5,
      ours: async ({ cni, pods: [pod] }) => {
        const sandbox = cni.sandbox(pod);
        const { result } = await cni.add(sandbox);
        const ms = await cni.check(sandbox, result);
        await cni.del(sandbox);
        return ms;
      },
    },
    {
      name: `ADD of ${AT_ONCE} at once, all done`,
      unit: "ms",
      repetitions: 10,
      warmUp: 1,
      ours: async ({ cni, pods }) => {
        const sandboxes = pods.map((pod) => cni.sandbox(pod));
        const ms = await timeWork(() => Promise.all(sandboxes.map((sandbox) => cni.add(sandbox))));
        for (const sandbox of sandboxes) await cni.del(sandbox);
        return ms;
      },
      peer: async ({ vsctl, pods }) => {
        const ports = pods.map(() => vsctl.newPort());
        const ms = await timeWork(() => Promise.all(ports.map((port) => vsctl.add(port))));
        for (const port of ports) await vsctl.del(port);
        return ms;
      },
      shows: "median",
      aim: ratioAtMost(1),
    },
    {
      name: "executable alone: VERSION",
      unit: "ms",
      repetitions: 100,
      warmUp: 10,
      ours: async () => {
        const env = { CNI_COMMAND: "VERSION" };
        return (await timeProgram({ command: EXECUTABLE, env, input: '{"cniVersion":"1.1.0"}' })).ms;
      },
      peer: async () => (await timeProgram({ command: process.execPath, args: ["-e", "0"], env: {} })).ms,
      aim: ratioAtMost(1),
    },
    {
      name: "executable alone: size on disk",
      unit: "KiB",
      repetitions: 1,
      ours: async () => (await stat(EXECUTABLE)).size / 1024,
      shows: "median",
      aim: atMost(1024, "< 1 MB"),
    },
    {
      name: "executable alone: peak memory",
      unit: "KiB",
      repetitions: 5,
      ours: async ({ cni, pods: [pod] }) => {
        const sandbox = cni.sandbox(pod);
        const peak = await cni.peakKiB(sandbox);
        await cni.del(sandbox);
        return peak;
      },
      shows: "median",
      aim: atMost(2048, "< 2 MB"),
    },
    {
      name: `ADD beside ${CROWD} ports`,
      unit: "ms",
      repetitions: 60,
      warmUp: 5,
      prepare: async ({ cni }) => {
        for (let each = 0; each < CROWD; each++) await cni.add(cni.sandbox(await cni.admit()));
      },
      ours: addAlone,
      peer: peerAddAlone,
      aim: ratioAtMost(1),
    },
  ],
  growths: [
    {
      name: `ADD's growth by ${CROWD} ports`,
      of: `ADD beside ${CROWD} ports, median`,
      over: "ADD, median",
      aim: atMost(2, "<= 2"),
    },
  ],
};

async function addAlone({ cni, pods: [pod] }: CniRig): Promise<number> {
  const sandbox = cni.sandbox(pod);
  const { ms } = await cni.add(sandbox);
  await cni.del(sandbox);
  return ms;
}

async function peerAddAlone({ vsctl }: CniRig): Promise<number> {
  const port = vsctl.newPort();
  const ms = await vsctl.add(port);
  await vsctl.del(port);
  return ms;
}
