import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ADDRESS_BLOCKS, IPAM_API_VERSION } from "../../../src/address-objects/resources.ts";
import { Failure } from "../../../src/failure/failure.ts";
import { type Agent, type AgentOptions, startAgent } from "../../../src/ipam-agent/agent.ts";
import type { OpenJournal } from "../../../src/ipam-agent/node-state.ts";
import { Journal } from "../../../src/journal/journal.ts";
import { type ApiRig, startApiRig } from "../api-server/api-rig.ts";
import type { Json, Stored } from "../api-server/object-store.ts";

/** A CNI call in the words of a test. */
export interface IpamCall {
  readonly verb: string;
  readonly container?: string;
  readonly ifname?: string;
  /** Name, and so UID, of the pod. */
  readonly pod?: string;
  readonly network?: string;
  readonly pools?: readonly string[];
  /** In place of the ipam section that names the pools. */
  readonly ipam?: Json;
  /** Further keys of the configuration. */
  readonly config?: Json;
  readonly cniVersion?: string;
  /** When the executable started; default now. */
  readonly startedAtMs?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** What the executable would print. */
export interface IpamAnswer {
  readonly exitCode: number;
  readonly json: {
    readonly ips?: readonly {
      readonly address: string;
      readonly gateway?: string;
      readonly version?: string;
    }[];
    readonly code?: number;
    readonly msg?: string;
    readonly details?: string;
    readonly [key: string]: unknown;
  };
}

/** An API server with one space, a pool and nodes, and agents of them with journals of their own. */
export class AgentRig {
  readonly api: ApiRig;
  readonly directory: string;
  /** Network namespaces that are there. */
  readonly netns = new Set<string>();
  readonly #agents = new Set<Agent>();

  private constructor(api: ApiRig, directory: string) {
    this.api = api;
    this.directory = directory;
  }

  static async open(): Promise<AgentRig> {
    const rig = new AgentRig(await startApiRig(), await mkdtemp(join(tmpdir(), "kvu-ipam-")));
    rig.put("addressspaces", "default", { blockPrefixes: { ipv4: 28, ipv6: 122 } });
    rig.pool("blue", { subnets: [{ cidr: "10.0.0.0/24", gateway: "10.0.0.1" }] });
    for (const node of ["n1", "n2"]) rig.api.server.store.create("nodes", { metadata: { name: node } });
    return rig;
  }

  /** Creates an IPAM object. */
  put(plural: string, name: string, spec: Json): Stored {
    return this.api.server.store.create(plural, { apiVersion: IPAM_API_VERSION, metadata: { name }, spec });
  }

  pool(name: string, spec: Json): Stored {
    return this.put("addresspools", name, {
      space: "default",
      mode: "NodeBlocks",
      cooldownSeconds: 60,
      ...spec,
    });
  }

  pod(name: string, node = "n1", spec: Json = {}): Stored {
    const metadata = { name, namespace: "tenant", annotations: { "kubernetes.io/config.hash": name } };
    return this.api.server.store.create("pods", { metadata, spec: { nodeName: node, ...spec } });
  }

  /** Blocks as the API server has them. */
  get blocks(): readonly Stored[] {
    return this.api.server.store.all(ADDRESS_BLOCKS.plural);
  }

  /** Requests that changed something, as method and status. */
  get writes(): readonly string[] {
    return this.api.server.answers.filter((answer) => !answer.startsWith("GET"));
  }

  /** An agent of a node, with the journal in the directory of that name, whose blocks are confirmed. */
  async agent(options: Partial<AgentOptions> & { readonly journal?: string } = {}): Promise<TestAgent> {
    const agent = await this.startAgent(options);
    await this.api.until(
      () => agent.state.isConfirmed && agent.state.pools.size > 0 && agent.state.spaces.size > 0,
    );
    return agent;
  }

  /** As {@link agent}, and waits for nothing. */
  async startAgent({
    journal,
    ...options
  }: Partial<AgentOptions> & { readonly journal?: string } = {}): Promise<TestAgent> {
    const { client, clock, logger } = this.api;
    const node = options.node ?? "n1";
    const agent = await startAgent({
      ...{ node, api: client, clock, logger, bootId: "boot-1" },
      stateDirectory: join(this.directory, journal ?? node),
      hasNetns: async (path) => this.netns.has(path),
      listNetns: async () => [...this.netns],
      random: () => 0.5,
      ...options,
    });
    this.#agents.add(agent);
    return Object.assign(agent, { call: (call: IpamCall) => this.#call(agent, call) });
  }

  /** Makes every request fail with 401 until the returned function is called. */
  apiAway(): () => void {
    const { tokens } = this.api.server;
    const known = [...tokens];
    tokens.clear();
    return () => {
      for (const token of known) tokens.add(token);
    };
  }

  /** Advances the clock by minutes, or a little more, until each agent has made as many passes. */
  async minutes(count: number): Promise<void> {
    for (let minute = 0; minute < count; minute++) {
      const goals = [...this.#agents].map((agent) => ({ agent, count: agent.passes.count + 1 }));
      await this.api.clock.advance(60_000);
      await this.api.until(() => goals.every((goal) => goal.agent.passes.count >= goal.count), 100);
    }
  }

  /** Ends an agent as a crash would: nothing that it still does is waited for. */
  async crash(agent: Agent): Promise<void> {
    this.#agents.delete(agent);
    await agent.close();
  }

  async #call(agent: Agent, call: IpamCall): Promise<IpamAnswer> {
    const { verb, container = "c1", ifname = "net1", pod = "p1", network = "net", pools = ["blue"] } = call;
    const {
      cniVersion = "1.1.0",
      ipam = { pools },
      config = {},
      signal = AbortSignal.timeout(60_000),
    } = call;
    const netns = `/run/netns/${container}`;
    if (verb === "ADD") this.netns.add(netns);
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=tenant;K8S_POD_NAME=${pod};K8S_POD_UID=${pod}`;
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: container,
      CNI_IFNAME: ifname,
      CNI_NETNS: netns,
      CNI_ARGS: args,
    };
    const stdin = {
      cniVersion,
      name: network,
      type: "macvlan",
      ipam: { type: "kube-vhostuser-ipam", ...ipam },
      ...config,
    };
    const request = {
      env: { ...env, ...call.env },
      stdin: Buffer.from(JSON.stringify(stdin)),
      startedAtMs: call.startedAtMs ?? this.api.clock.monotonic(),
    };
    const { exitCode, stdout } = await agent.handle(request, signal);
    return { exitCode, json: stdout === "" ? {} : JSON.parse(stdout) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const agent of this.#agents) await agent.close();
    await this.api.close();
    await rm(this.directory, { recursive: true });
  }
}

/** An agent that is called in the words of a test. */
export type TestAgent = Agent & { call(call: IpamCall): Promise<IpamAnswer> };

/** The addresses of an ADD's answer. */
export function addressesOf({ json }: IpamAnswer): readonly string[] {
  return (json.ips ?? []).map(({ address }) => address);
}

/** Opens a journal whose disk is full when it is said to be, or for entries whose key begins so. */
export function openFailing(disk: { isFull: boolean; forKeys?: string }): OpenJournal {
  return async (options) => {
    const { journal, content } = await Journal.open(options);
    return {
      content,
      journal: {
        append: async (key, value) => {
          if (disk.isFull && key.startsWith(disk.forKeys ?? ""))
            throw new Failure({ code: "record-unwritable", what: "the disk is full" });
          await journal.append(key, value);
        },
      },
    };
  };
}
