import { BRIDGES } from "../../cluster/switch.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import { waitUntil } from "../../machine/wait-until.ts";
import { FakeApiServer } from "../../stand-in/api-server/fake-api-server.ts";
import { BenchNode } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { ClaimCalls, type ClaimPod } from "../claim-calls.ts";
import { type BenchPod, CniCalls } from "../cni-calls.ts";
import { calmMemory, REST_TIMES, settledMemory, TRIAL_REST } from "../daemon-at-rest.ts";
import { pluginSocket, withPlugin } from "../device-load.ts";
import { atMost, type Measurement, ratioAtMost, type SuiteDefinition } from "../measurement.ts";
import { timeWork } from "../timed-program.ts";

/** Pods that start at the same time, as after a node's reboot. */
const AT_ONCE = 16;
const MANY = 1000;

/** What the measurements share. */
export interface DraRig {
  readonly bench: Bench;
  readonly api: FakeApiServer;
  readonly node: BenchNode;
  readonly claims: ClaimCalls;
  readonly cni: CniCalls;
  /** Pods of the peer; the first is what single calls use. */
  readonly pods: readonly [BenchPod, ...BenchPod[]];
  /** A daemon that did nothing but prepare claims, while their memory is measured. */
  loaded?: { readonly node: BenchNode; readonly claims: ClaimCalls; prepared: number };
}

/** A daemon with devices and claims in one pool, and an API server. */
export async function openDraRig(bench: Bench): Promise<DraRig> {
  const { run } = bench;
  const api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  const node = await openNode({ bench, api }, "dra", AT_ONCE);
  const cni = await CniCalls.open(node, (await addNetworkNamespace(run, "bench")).path);
  const pods: [BenchPod, ...BenchPod[]] = [await cni.admit()];
  while (pods.length < AT_ONCE) pods.push(await cni.admit());
  return { bench, api, node, claims: new ClaimCalls(node, api), cni, pods };
}

/** A node whose daemon runs. */
async function openNode(
  { bench: { run, ovs }, api }: Pick<DraRig, "bench" | "api">,
  name: string,
  ports: number,
): Promise<BenchNode> {
  const node = await BenchNode.open(run, {
    ...{ name, devices: AT_ONCE, claims: { ports, api } },
    dataplane: { type: "ovs-dpdk", database: ovs.databaseSocket, bridge: BRIDGES.a },
  });
  await node.startDaemon();
  return node;
}

/** Claims through kubelet's calls, the real daemon and switch, and an API server on the same machine. */
export const draSuite: SuiteDefinition<DraRig> = {
  name: "dra",
  peer: "the same pods by this daemon's device plugin: Allocate, and ADD or DEL by the CNI executable",
  measurements: [
    ...callsOf(1, "alone", 60),
    ...callsOf(AT_ONCE, `${AT_ONCE} claims at once, all done`, 8),
    {
      name: "API requests for a claim's life",
      unit: "messages",
      repetitions: 1,
      ours: requestsOfALife,
      shows: "median",
      aim: atMost(2, "<= 2"),
    },
    {
      name: "daemon starts, until its slices are published",
      unit: "ms",
      repetitions: 10,
      warmUp: 1,
      ours: async ({ node, api }) => {
        await node.stopDaemon();
        // As kubelet does when it starts, or when a driver stays away.
        for (const { metadata } of offering(api)) api.store.remove("resourceslices", metadata.name, {});
        return node.startUntil("slices", () => offering(api).length > 0);
      },
    },
    memory("daemon's memory, no claim", 0, settledMemory),
    memory(`daemon's memory, ${MANY} claims`, MANY, settledMemory),
    memory(`daemon's memory, ${MANY} claims, half a minute later`, MANY, calmMemory),
  ],
};

/** Prepare and Unprepare of claims that start together, against what the device plugin's pods need for the same. */
function callsOf(atOnce: number, name: string, repetitions: number): readonly Measurement<DraRig>[] {
  const shared = {
    unit: "ms",
    repetitions,
    warmUp: Math.ceil(repetitions / 8),
    aim: ratioAtMost(1),
  } as const;
  return [
    {
      ...{ name: `Prepare, ${name}`, ...shared },
      ours: async (rig) => (await claimsAtOnce(rig, atOnce)).beginMs,
      peer: async (rig) => (await pluginPodsAtOnce(rig, atOnce)).beginMs,
    },
    {
      ...{ name: `Unprepare, ${name}`, ...shared },
      ours: async (rig) => (await claimsAtOnce(rig, atOnce)).endMs,
      peer: async (rig) => (await pluginPodsAtOnce(rig, atOnce)).endMs,
    },
  ];
}

/** Milliseconds until the last of several pods has its port, or has lost it. */
interface AtOnce {
  readonly beginMs: number;
  readonly endMs: number;
}

async function claimsAtOnce({ claims }: DraRig, atOnce: number): Promise<AtOnce> {
  const pods: ClaimPod[] = [];
  while (pods.length < atOnce) pods.push(await claims.admit());
  const beginMs = await timeWork(() => Promise.all(pods.map((pod) => claims.prepare(pod))));
  for (const pod of pods) await untilWritten(claims, pod);
  const endMs = Math.max(...(await Promise.all(pods.map((pod) => claims.unprepare(pod)))));
  return { beginMs, endMs };
}

async function pluginPodsAtOnce({ node, cni, pods }: DraRig, atOnce: number): Promise<AtOnce> {
  const starting = pods.slice(0, atOnce).map((pod) => ({ pod, sandbox: cni.sandbox(pod) }));
  const beginMs = await withPlugin(pluginSocket(node), (plugin) =>
    timeWork(() =>
      Promise.all(
        starting.map(async ({ pod, sandbox }) => {
          await plugin.allocate([pod.device]);
          await cni.add(sandbox);
        }),
      ),
    ),
  );
  const endMs = Math.max(...(await Promise.all(starting.map(({ sandbox }) => cni.del(sandbox)))));
  return { beginMs, endMs };
}

/** Reads and writes of the API server from Prepare until a claim is unprepared, for each of several claims. */
async function requestsOfALife({ api, claims }: DraRig): Promise<number> {
  const before = api.answers.length;
  const pods = await Promise.all(Array.from({ length: AT_ONCE }, () => claims.admit()));
  for (const pod of pods) {
    await claims.prepare(pod);
    await untilWritten(claims, pod);
    await claims.unprepare(pod);
  }
  return (api.answers.length - before) / pods.length;
}

/** The status is written in the background. */
function untilWritten(claims: ClaimCalls, pod: ClaimPod): Promise<boolean> {
  return waitUntil(() => claims.hasStatus(pod), { what: "a claim has its status", everyMs: 1 });
}

/** Slices of nodes that offer a device. */
function offering({ store }: FakeApiServer) {
  return store
    .all("resourceslices")
    .filter(({ spec }) => ((spec as { readonly devices?: readonly unknown[] }).devices ?? []).length > 0);
}

/** Memory of a daemon that has done nothing but prepare so many claims. */
function memory(
  name: string,
  count: number,
  measure: typeof settledMemory | typeof calmMemory,
): Measurement<DraRig> {
  return {
    ...{ name, unit: "MB", repetitions: 1, shows: "median" },
    prepare: (rig) => load(rig, rig.bench.isTrial === true ? Math.min(count, AT_ONCE) : count),
    ours: ({ node, loaded, bench: { isTrial } }) =>
      measure(loaded?.node ?? node, isTrial === true ? TRIAL_REST : REST_TIMES),
  };
}

/** Prepares claims on a node of their own until it has so many. */
async function load(rig: DraRig, count: number): Promise<void> {
  if (rig.loaded === undefined) {
    await rig.node.close();
    const node = await openNode(rig, "many", MANY);
    rig.loaded = { node, claims: new ClaimCalls(node, rig.api), prepared: 0 };
  }
  const { loaded } = rig;
  for (; loaded.prepared < count; loaded.prepared += AT_ONCE) {
    const missing = Math.min(AT_ONCE, count - loaded.prepared);
    const pods = await Promise.all(Array.from({ length: missing }, () => loaded.claims.admit()));
    await Promise.all(pods.map((pod) => loaded.claims.prepare(pod)));
  }
}
