import { stat } from "node:fs/promises";
import { join } from "node:path";
import { BRIDGES } from "../../cluster/switch.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import { BenchNode } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { type BenchPod, CniCalls, EXECUTABLE } from "../cni-calls.ts";
import { atMost, type Measurement, ratioAtMost, type SuiteDefinition } from "../measurement.ts";
import { timeProgram, timeWork } from "../timed-program.ts";
import { VsctlCalls } from "../vsctl-calls.ts";

/** Sandboxes that start at the same time, as after a node's reboot. */
const AT_ONCE = 16;
/** Ports that other pods have: a quiet node and a full one. */
const FEW = 10;
const MANY = 300;
const BRIDGE = BRIDGES.a;

/** What the measurements share. */
export interface CniRig {
  readonly node: BenchNode;
  readonly cni: CniCalls;
  readonly vsctl: VsctlCalls;
  /** Pods that wait for their sandbox; the first is what single calls use. */
  readonly pods: readonly [BenchPod, ...BenchPod[]];
  /** Ports of other pods by now, and how many there are at most. */
  crowd: number;
  readonly crowdLimit: number;
}

/** A daemon with devices enough, and pods that hold some of them. */
export async function openCniRig({ run, ovs, isTrial }: Bench): Promise<CniRig> {
  const { databaseSocket } = ovs;
  const devices = AT_ONCE + MANY;
  const dataplane = { type: "ovs-dpdk", database: databaseSocket, bridge: BRIDGE } as const;
  const node = await BenchNode.open(run, { name: "cni", dataplane, devices });
  await node.startDaemon();
  const netns = await addNetworkNamespace(run, "bench");
  const cni = await CniCalls.open(node, netns.path);
  const pods: [BenchPod, ...BenchPod[]] = [await cni.admit()];
  while (pods.length < AT_ONCE) pods.push(await cni.admit());
  const directory = join(run.directory, "peer");
  const vsctl = new VsctlCalls({ databaseSocket, bridge: BRIDGE, directory });
  return { node, cni, pods, vsctl, crowd: 0, crowdLimit: isTrial === true ? 1 : MANY };
}

/** CNI verbs through the real executable, daemon and switch, against ovs-vsctl as a process. */
export const cniSuite: SuiteDefinition<CniRig> = {
  name: "cni",
  peer: "ovs-vsctl as a process with its default wait, on the same switch; for VERSION, node -e 0",
  measurements: [
    ...verbsBeside(FEW),
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
    ...verbsBeside(MANY),
  ],
  growths: (["ADD", "DEL"] as const).map((verb) => ({
    name: `${verb}'s growth from ${FEW} to ${MANY} ports`,
    of: `${verb} beside ${MANY} ports, median`,
    over: `${verb} beside ${FEW} ports, median`,
    aim: atMost(2, "<= 2"),
  })),
};

/** ADD and DEL, one alone and several at once, on a switch that has so many ports already. */
function verbsBeside(crowd: number): readonly Measurement<CniRig>[] {
  const beside = `beside ${crowd} ports`;
  return [
    {
      name: `ADD ${beside}`,
      unit: "ms",
      repetitions: 60,
      warmUp: 10,
      prepare: (rig) => growCrowd(rig, crowd),
      ours: addAlone,
      peer: peerAddAlone,
      aim: ratioAtMost(1),
    },
    {
      name: `DEL ${beside}`,
      unit: "ms",
      repetitions: 60,
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
      name: `ADD of ${AT_ONCE} at once ${beside}, all done`,
      unit: "ms",
      repetitions: 8,
      warmUp: 1,
      ours: async (rig) => (await allAtOnce(rig)).addMs,
      peer: async (rig) => (await peerAllAtOnce(rig)).addMs,
      shows: "median",
      aim: ratioAtMost(1),
    },
    {
      name: `DEL of ${AT_ONCE} at once ${beside}, all done`,
      unit: "ms",
      repetitions: 8,
      warmUp: 1,
      ours: async (rig) => (await allAtOnce(rig)).delMs,
      peer: async (rig) => (await peerAllAtOnce(rig)).delMs,
      shows: "median",
      aim: ratioAtMost(1),
    },
  ];
}

async function growCrowd(rig: CniRig, crowd: number): Promise<void> {
  for (; rig.crowd < Math.min(crowd, rig.crowdLimit); rig.crowd++)
    await rig.cni.add(rig.cni.sandbox(await rig.cni.admit()));
}

interface AllAtOnce {
  readonly addMs: number;
  readonly delMs: number;
}

async function allAtOnce({ cni, pods }: CniRig): Promise<AllAtOnce> {
  const sandboxes = pods.map((pod) => cni.sandbox(pod));
  const addMs = await timeWork(() => Promise.all(sandboxes.map((sandbox) => cni.add(sandbox))));
  return { addMs, delMs: await timeWork(() => Promise.all(sandboxes.map((sandbox) => cni.del(sandbox)))) };
}

async function peerAllAtOnce({ vsctl, pods }: CniRig): Promise<AllAtOnce> {
  const ports = pods.map(() => vsctl.newPort());
  const addMs = await timeWork(() => Promise.all(ports.map((port) => vsctl.add(port))));
  return { addMs, delMs: await timeWork(() => Promise.all(ports.map((port) => vsctl.del(port)))) };
}

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
