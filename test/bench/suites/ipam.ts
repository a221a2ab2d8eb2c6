import { setTimeout as delay } from "node:timers/promises";
import type { NodeAgent } from "../../cluster/bundled-ipam.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import type { LabRun } from "../../machine/lab-run.ts";
import { FakeApiServer } from "../../stand-in/api-server/fake-api-server.ts";
import { addNode, callsOf, createPool, createSpace } from "../bench-agent.ts";
import type { BenchRun } from "../bench-suite.ts";
import { REST_TIMES, TRIAL_REST } from "../daemon-at-rest.ts";
import { IpamCalls } from "../ipam-calls.ts";
import { atMost, type Measurement, ratioAtMost, type SuiteDefinition } from "../measurement.ts";
import { anonymousKiB } from "../process-memory.ts";
import { openWhereabouts, WHEREABOUTS } from "../whereabouts.ts";
import { largeCluster, writesForAnAddress } from "./ipam-cluster.ts";
import { controllerMemory } from "./ipam-controller.ts";

/** Sandboxes that start at the same time, as after a node's reboot. */
const AT_ONCE = 64;
/** kubelet's default limit of pods. */
const PODS = 110;

/** What the measurements share. */
export interface IpamRig {
  readonly run: LabRun;
  readonly isTrial: boolean;
  readonly api: FakeApiServer;
  readonly netns: string;
  readonly agent: NodeAgent;
  /** Of a pool with the defaults: an address rests a minute, so each ADD takes another one, and each sixteenth a block. */
  readonly calls: IpamCalls;
  /** Of a pool whose addresses do not rest: the node's blocks last. */
  readonly callsInBlocks: IpamCalls;
  readonly peer: IpamCalls;
  /** Undefined where whereabouts is not given. */
  readonly whereabouts: IpamCalls | undefined;
  readonly shown: Map<string, number>;
  pools: number;
  /** An agent that does nothing but give addresses, and how many it has given. */
  quiet?: { readonly agent: NodeAgent; readonly calls: IpamCalls; given: number };
}

/** An agent with its API server, and host-local with a directory of its own. */
export async function openIpamRig({ run, isTrial = false }: BenchRun): Promise<IpamRig> {
  const api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  createSpace(api, 28);
  createPool(api, "resting", "10.16.0.0/14");
  createPool(api, "in-blocks", "10.20.0.0/16", { cooldownSeconds: 0 });
  const { path: netns } = await addNetworkNamespace(run, "ipam");
  const agent = addNode(run, api, "ipam");
  await agent.start();
  const [calls, callsInBlocks] = [callsOf(agent, "resting", netns), callsOf(agent, "in-blocks", netns)];
  await Promise.all([calls.untilReady(), callsInBlocks.untilReady()]);
  const ranges = [[{ subnet: "10.24.0.0/16" }]];
  const peer = {
    command: "/usr/lib/cni/host-local",
    ipam: { type: "host-local", ranges, dataDir: `${run.directory}/host-local` },
  };
  return {
    ...{ run, isTrial, api, netns, agent, pools: 0 },
    ...{ calls, callsInBlocks },
    peer: new IpamCalls(peer, netns),
    whereabouts: WHEREABOUTS === undefined ? undefined : await openWhereabouts(run, WHEREABOUTS, netns),
    shown: new Map(),
  };
}

/** ADD and DEL by the executable and the bundled agent, whose journal is on the disk, and the memory that it takes. */
export const ipamSuite: SuiteDefinition<IpamRig> = {
  name: "ipam",
  peer: "host-local of Debian's containernetworking-plugins; where a figure says so, whereabouts",
  measurements: [
    ...(["ADD", "DEL"] as const).map(
      (verb): Measurement<IpamRig> => ({
        ...{ name: `${verb}, alone`, unit: "ms", repetitions: 100, warmUp: 20, aim: ratioAtMost(1.3) },
        ours: ({ calls }) => calls.alone().then(timeOf(verb)),
        peer: ({ peer }) => peer.alone().then(timeOf(verb)),
      }),
    ),
    ...(["ADD", "DEL"] as const).map(
      (verb): Measurement<IpamRig> => ({
        ...{ name: `${verb} of ${AT_ONCE} at once, all done`, unit: "ms", repetitions: 10, warmUp: 2 },
        ...{ shows: "median", aim: ratioAtMost(1) },
        ours: ({ callsInBlocks }) => callsInBlocks.atOnce(AT_ONCE).then(timeOf(verb)),
        peer: ({ peer }) => peer.atOnce(AT_ONCE).then(timeOf(verb)),
      }),
    ),
    {
      ...{ name: `ADD of ${AT_ONCE} at once on a node without a block, all done`, unit: "ms" },
      ...{ repetitions: 5, warmUp: 1, shows: "median" },
      ours: async (rig) => (await callsOfNewPool(rig)).atOnce(AT_ONCE).then(timeOf("ADD")),
      peer: ({ peer }) => peer.atOnce(AT_ONCE).then(timeOf("ADD")),
    },
    ...(WHEREABOUTS === undefined ? [] : againstWhereabouts()),
    ...writesForAnAddress,
    ...largeCluster,
    agentMemory("agent's memory, no address", 0, "settleMs"),
    agentMemory(`agent's memory, ${PODS} addresses`, PODS, "settleMs"),
    agentMemory(`agent's memory, ${PODS} addresses, half a minute later`, PODS, "calmMs"),
    ...controllerMemory,
  ],
};

/** The same ADD and DEL, against whereabouts' executable and an API server on this machine. */
function againstWhereabouts(): readonly Measurement<IpamRig>[] {
  const aim = ratioAtMost(0.1);
  const whereaboutsOf = ({ whereabouts }: IpamRig): IpamCalls => {
    if (whereabouts === undefined) throw new Error("WHEREABOUTS_BIN is not set");
    return whereabouts;
  };
  return (["ADD", "DEL"] as const).flatMap((verb): readonly Measurement<IpamRig>[] => [
    {
      ...{ name: `${verb}, alone, against whereabouts`, unit: "ms", repetitions: 20, warmUp: 2, aim },
      ours: ({ calls }) => calls.alone().then(timeOf(verb)),
      peer: (rig) => whereaboutsOf(rig).alone().then(timeOf(verb)),
    },
    {
      ...{ name: `${verb} of ${AT_ONCE} at once, all done, against whereabouts`, unit: "ms" },
      ...{ repetitions: 1, shows: "median", aim },
      ours: ({ callsInBlocks }) => callsInBlocks.atOnce(AT_ONCE).then(timeOf(verb)),
      peer: (rig) => whereaboutsOf(rig).atOnce(AT_ONCE).then(timeOf(verb)),
    },
  ]);
}

function timeOf(verb: "ADD" | "DEL") {
  return ({ addMs, delMs }: { readonly addMs: number; readonly delMs: number }) =>
    verb === "ADD" ? addMs : delMs;
}

/** A network with a pool of which the node has no block, known to the agent. */
async function callsOfNewPool(rig: IpamRig): Promise<IpamCalls> {
  const { api, agent, netns } = rig;
  const name = `new-${rig.pools}`;
  createPool(api, name, `10.32.${rig.pools++}.0/24`);
  const calls = callsOf(agent, name, netns);
  await calls.untilReady();
  return calls;
}

/** Anonymous memory of an agent that has done nothing but give so many addresses. */
function agentMemory(name: string, count: number, rest: "settleMs" | "calmMs"): Measurement<IpamRig> {
  return {
    ...{ name, unit: "MB", repetitions: 1, shows: "median", aim: atMost(40, "<= 40 MB") },
    prepare: (rig) => giveAddresses(rig, rig.isTrial ? Math.min(count, 1) : count),
    ours: async ({ quiet, isTrial }) => {
      await delay((isTrial ? TRIAL_REST : REST_TIMES)[rest]);
      return ((await anonymousKiB(quiet?.agent.pid ?? -1)) * 1024) / 1e6;
    },
  };
}

/** Has an agent of its own give addresses until it has given so many. */
async function giveAddresses(rig: IpamRig, count: number): Promise<void> {
  if (rig.quiet === undefined) {
    const agent = addNode(rig.run, rig.api, "quiet");
    await agent.start();
    const calls = callsOf(agent, "resting", rig.netns);
    await calls.untilReady();
    rig.quiet = { agent, calls, given: 0 };
  }
  const { quiet } = rig;
  for (; quiet.given < count; quiet.given++) await quiet.calls.add(quiet.calls.sandbox());
}
