import { ADDRESS_BLOCKS, IPAM_API_VERSION } from "../../src/address-objects/resources.ts";
import { type Agent, startAgent } from "../../src/ipam-agent/agent.ts";
import type { AgentApi } from "../../src/ipam-agent/agent-context.ts";
import type { AgentRequest } from "../../src/ipam-agent/request.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { Machine, type Program } from "../model/machine.ts";
import { SimulatedApi, SimulatedApiServer } from "../model/simulated-api.ts";
import { simulateFiles } from "../model/simulated-files.ts";
import { Simulation } from "../model/simulation.ts";

/** What is simulated. */
export interface SimulatedClusterOptions {
  readonly nodes: number;
  /** Prefix length of the space's IPv4 blocks. */
  readonly blockPrefix: number;
  /** Subnet of the one pool. */
  readonly cidr: string;
  /** How many writes etcd does in a second, one after the other; default any number. */
  readonly writesPerSecond?: number;
}

/** A write as the API server did it, or refused it because the object was there. */
interface Write {
  readonly verb: string;
  readonly atMs: number;
}

/** What a start of pods took. */
export interface PodsStart {
  /** Simulated. */
  readonly ms: number;
  readonly writes: number;
  /** The most writes in any second. */
  readonly busiestSecond: number;
}

/** Simulated milliseconds until all pods of a start had their addresses. */
const LIMIT_MS = 10 * 60_000;
const SEED = 7;

interface Node {
  readonly name: string;
  readonly agent: Agent;
  readonly program: Program;
}

/**
 * A cluster whose nodes run the shipped agent, all in this process. API server, network, disks and clocks are those of
 * test/model: an answer of the API takes 1 to 10 ms, an operation of a disk 0.02 to 2 ms and one in fifty up to 200 ms, and no
 * processor is ever busy. Its times are simulated ones.
 */
export class SimulatedCluster {
  readonly #simulation = new Simulation(SEED);
  readonly #server = new SimulatedApiServer(this.#simulation);
  readonly #nodes: Node[] = [];
  readonly #restoreFiles = simulateFiles();
  #pods = 0;
  /** Every request that writes, whatever became of it. */
  readonly writes: Write[] = [];
  readonly #writeMs: number;
  /** When etcd has done all writes that wait for it. */
  #etcdFreeAtMs = 0;

  private constructor({ writesPerSecond = Number.POSITIVE_INFINITY }: SimulatedClusterOptions) {
    this.#writeMs = 1000 / writesPerSecond;
  }

  /** A cluster whose agents have started. */
  static async start(options: SimulatedClusterOptions): Promise<SimulatedCluster> {
    const { nodes, blockPrefix, cidr } = options;
    const cluster = new SimulatedCluster(options);
    const { store } = cluster.#server;
    const object = (name: string, spec: object) => ({
      apiVersion: IPAM_API_VERSION,
      metadata: { name },
      spec,
    });
    store.create("addressspaces", object("default", { blockPrefixes: { ipv4: blockPrefix, ipv6: 122 } }));
    store.create(
      "addresspools",
      object("blue", { space: "default", subnets: [{ cidr }], mode: "NodeBlocks" }),
    );
    const names = Array.from({ length: nodes }, (_, index) => `node-${index}`);
    for (const name of names) store.create("nodes", { metadata: { name } });
    await cluster.#until(Promise.all(names.map((name) => cluster.#startNode(name))));
    const isReady = ({ agent: { state } }: Node) =>
      state.isConfirmed && state.pools.size > 0 && state.spaces.size > 0;
    while (!cluster.#nodes.every(isReady)) await cluster.#simulation.advance(10);
    return cluster;
  }

  /** Objects that the API server has of a resource. */
  objects(plural: string = ADDRESS_BLOCKS.plural) {
    return this.#server.store.all(plural);
  }

  /**
   * Starts pods with one interface each, spread evenly over the nodes, all in the same moment.
   * @returns simulated milliseconds until the last has its address, and what was written until then
   */
  async startPods(count: number): Promise<PodsStart> {
    const begin = this.#simulation.nowMs;
    const before = this.writes.length;
    const starting = Array.from({ length: count }, (_, index) => this.#nodes[index % this.#nodes.length]);
    await this.#until(Promise.all(starting.map((node) => node && this.#add(node))));
    const writes = this.writes.slice(before);
    return {
      ms: this.#simulation.nowMs - begin,
      writes: writes.length,
      busiestSecond: busiestSecond(writes),
    };
  }

  /** Lets time pass. */
  rest(ms: number): Promise<void> {
    return this.#simulation.advance(ms);
  }

  close(): void {
    for (const { program } of this.#nodes) program.kill();
    this.#restoreFiles();
  }

  async #startNode(name: string): Promise<void> {
    const program = new Machine(name, this.#simulation).run();
    const api = new SimulatedApi(this.#server, program);
    const written = async (verb: string): Promise<SimulatedApi> => {
      const { nowMs } = this.#simulation;
      this.writes.push({ verb, atMs: nowMs });
      this.#etcdFreeAtMs = Math.max(this.#etcdFreeAtMs, nowMs) + this.#writeMs;
      if (this.#writeMs > 0)
        await new Promise<void>((done) => program.after(this.#etcdFreeAtMs - nowMs, done));
      return api;
    };
    const counted: AgentApi = {
      get: (...call) => api.get(...call),
      list: (...call) => api.list(...call),
      openWatch: (...call) => api.openWatch(...call),
      servedVersions: (...call) => api.servedVersions(...call),
      create: async (...call) => (await written("create")).create(...call),
      update: async (...call) => (await written("update")).update(...call),
      delete: async (...call) => (await written("delete")).delete(...call),
    };
    const agent = await startAgent({
      ...{
        node: name,
        api: counted,
        bootId: program.machine.bootId,
        clock: program.clock,
        logger: silentLogger,
      },
      ...{
        stateDirectory: `${program.root}/ipam`,
        hasNetns: async () => true,
        listNetns: async () => [],
        random: this.#simulation.random,
      },
    });
    this.#nodes.push({ name, agent, program });
  }

  async #add({ agent, program }: Node): Promise<void> {
    this.#pods += 1;
    const container = `${this.#pods}`.padStart(64, "0");
    const args = `K8S_POD_NAMESPACE=tenant;K8S_POD_NAME=pod-${this.#pods};K8S_POD_UID=uid-${this.#pods}`;
    const request: AgentRequest = {
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: container,
        CNI_IFNAME: "net1",
        CNI_NETNS: `/run/netns/${container}`,
        CNI_ARGS: args,
      },
      stdin: Buffer.from(
        JSON.stringify({
          ...{ cniVersion: "1.1.0", name: "blue", type: "macvlan" },
          ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] },
        }),
      ),
      startedAtMs: program.clock.monotonic(),
    };
    const { exitCode, stdout } = await agent.handle(request, new AbortController().signal);
    if (exitCode !== 0) throw new Error(`ADD failed: ${stdout}`);
  }

  #until<Value>(work: Promise<Value>): Promise<Value> {
    return this.#simulation.until(work, LIMIT_MS);
  }
}

function busiestSecond(writes: readonly Write[]): number {
  return Math.max(
    0,
    ...writes.map(({ atMs: from }) => writes.filter(({ atMs }) => atMs >= from && atMs < from + 1000).length),
  );
}
