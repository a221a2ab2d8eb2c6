import type { Answer } from "../../../src/cni/answer.ts";
import { type Agent, startAgent } from "../../../src/ipam-agent/agent.ts";
import { Machine, type Program } from "../machine.ts";
import { type Habits, HEALTHY, SimulatedApi } from "../simulated-api.ts";
import type { IpamCluster } from "./ipam-cluster.ts";
import { networkConfig } from "./networks.ts";
import type { Sandbox } from "./truth.ts";

const STATE = "/var/lib/kube-vhostuser/ipam";
/** As long as a plugin that delegates waits. */
const DEADLINE_MS = 60_000;

export type Verb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";

/** A node: its machine, the agent on it, and the container runtime that calls the agent. */
export class IpamNode {
  readonly name: string;
  readonly machine: Machine;
  readonly habits: Habits = { ...HEALTHY };
  readonly sandboxes = new Set<Sandbox>();
  /** Paths of network namespaces. */
  readonly namespaces = new Set<string>();
  /** Every look for a network namespace fails. */
  isNetnsUnknown = false;
  /** A defect that the model must find: a DEL is taken for one of the pod's newest sandbox. */
  endsNewest = false;
  /** Since when the Node object of these machine's programs is gone, or says that it is off. */
  goneSinceMs: number | undefined;
  /** Its journal was lost, or its Node object made again: its blocks rest until the pods are gone that were on it. */
  mustDrain = false;
  agent: Agent | undefined;
  program: Program | undefined;
  readonly #cluster: IpamCluster;
  /** Calls that wait for the agent: they fail when it ends. */
  readonly #waiting = new Set<() => void>();
  #calls = 0;

  constructor(cluster: IpamCluster, name: string) {
    this.name = name;
    this.#cluster = cluster;
    this.machine = new Machine(name, cluster.simulation, cluster.simulation.between(-3_600_000, 3_600_000));
  }

  get journalPath(): string {
    return `${STATE}/journal`;
  }

  /** Starts the agent, if the machine is on and none runs. */
  startAgent(): void {
    if (!this.machine.isOn || this.program?.isAlive) return;
    const program = this.machine.run();
    this.program = program;
    const { simulation, server } = this.#cluster;
    const started = startAgent({
      node: this.name,
      api: new SimulatedApi(server, program, this.habits),
      stateDirectory: `${program.root}${STATE}`,
      bootId: this.machine.bootId,
      hasNetns: (path) => this.#looksAtNetns(program, () => this.namespaces.has(path)),
      listNetns: () => this.#looksAtNetns(program, () => [...this.namespaces]),
      random: simulation.random,
      clock: program.clock,
      logger: this.#cluster.loggerOf(this.name),
    });
    started.then(
      (agent) => {
        if (program.isAlive) this.agent = agent;
      },
      // kubelet starts it again.
      (error: unknown) => {
        this.#cluster.note(`${this.name}: the agent cannot start: ${error}`);
        program.kill();
        simulation.after(10_000, () => this.startAgent());
      },
    );
  }

  /** SIGKILL; kubelet starts it again after a while. */
  killAgent(againMs: number): void {
    this.program?.kill();
    this.#agentIsGone();
    this.#cluster.simulation.after(againMs, () => this.startAgent());
  }

  /** SIGKILL at one of its next awaits. */
  killAgentAfter(events: number): void {
    this.program?.killAfter(events, () => this.killAgent(1_000));
  }

  /** SIGTERM: it answers what it has begun. */
  stopAgent(): void {
    const { agent, program } = this;
    if (agent === undefined || program === undefined) return;
    this.agent = undefined;
    void agent.close().then(() => {
      if (program.isAlive) this.killAgent(1_000);
    });
    // kubelet waits for 30 s.
    program.after(30_000, () => this.killAgent(1_000));
  }

  powerOff(): void {
    this.machine.powerOff();
    this.#agentIsGone();
    this.namespaces.clear();
    for (const sandbox of this.sandboxes) this.#cluster.truth.over(sandbox, this.machine);
    this.sandboxes.clear();
    // The next boot's clock starts again.
    for (const sandbox of this.#cluster.allSandboxes)
      if (sandbox.node === this.name) sandbox.netnsGoneAtMs = 0;
  }

  /** A new disk, while the machine is off. */
  replaceDisk(): void {
    this.mustDrain = true;
    this.machine.replaceDisk();
  }

  powerOn(): void {
    this.machine.powerOn();
    this.startAgent();
  }

  /** The directory is removed while pods run, perhaps pods that the API server does not have any more. */
  wipeState(): void {
    if (!this.machine.isOn) return;
    this.mustDrain = true;
    for (const sandbox of this.sandboxes) sandbox.isForgotten = true;
    this.program?.kill();
    this.#agentIsGone();
    const { names } = this.machine.disk;
    for (const name of [...names.keys()]) if (name.startsWith(STATE)) names.delete(name);
    this.machine.disk.syncDirectory(STATE);
    this.#cluster.simulation.after(1_000, () => this.startAgent());
  }

  /**
   * The runtime executes the plugin. Without an agent ADD fails and DEL succeeds.
   * @param delayMs between the executable's start and its request
   * @param beforeRequest called when the agent gets the request
   * @returns undefined where the answer never comes
   */
  async call(
    verb: Verb,
    sandbox: Pick<Sandbox, "containerId" | "interfaceName" | "netns" | "network"> & Partial<Sandbox>,
    delayMs: number,
    keep: readonly Sandbox[] = [],
    beforeRequest: () => void = () => undefined,
  ): Promise<Answer | undefined> {
    const { machine } = this;
    const boot = machine.boots;
    // No two executables start in the same nanosecond.
    this.#calls += 1;
    const startedAtMs = machine.monotonicMs + this.#calls / 1e6;
    const ended = verb === "GC" ? this.#endedBy(sandbox.network, keep) : [];
    await this.#cluster.sleep(delayMs);
    const { agent, program } = this;
    if (agent === undefined || program === undefined || !machine.isOn || machine.boots !== boot)
      return undefined;
    if (verb === "DEL" && sandbox.pod !== undefined) (sandbox as Sandbox).isReleased = true;
    for (const one of ended) one.isReleased = true;
    const { pod } = sandbox;
    const newest = [...this.sandboxes].findLast((one) => one.pod.uid === pod?.uid);
    const isWrong = this.endsNewest && verb === "DEL" && newest !== undefined;
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: isWrong ? newest.containerId : sandbox.containerId,
      CNI_IFNAME: sandbox.interfaceName,
      CNI_NETNS: sandbox.netns,
      CNI_PATH: "/opt/cni/bin",
      CNI_ARGS: pod
        ? `K8S_POD_NAMESPACE=${pod.namespace};K8S_POD_NAME=${pod.name};K8S_POD_UID=${pod.uid}`
        : "",
    };
    const config = networkConfig(sandbox.network, keep, sandbox.ips ?? []);
    const stdin = Buffer.from(JSON.stringify(config));
    const deadline = new AbortController();
    program.after(DEADLINE_MS, () => deadline.abort(new DOMException("not in time", "TimeoutError")));
    beforeRequest();
    const answered = agent.handle({ startedAtMs, env, stdin }, deadline.signal);
    const gone = Promise.withResolvers<undefined>();
    const end = () => gone.resolve(undefined);
    this.#waiting.add(end);
    return Promise.race([answered, gone.promise]).finally(() => this.#waiting.delete(end));
  }

  /** What a GC ends: those that started later are not known to the runtime that calls it. */
  #endedBy(network: string, keep: readonly Sandbox[]): readonly Sandbox[] {
    return [...this.#cluster.allSandboxes].filter(
      (sandbox) => sandbox.node === this.name && sandbox.network === network && !keep.includes(sandbox),
    );
  }

  #agentIsGone(): void {
    this.agent = undefined;
    for (const end of this.#waiting) end();
  }

  #looksAtNetns<Found>(program: Program, look: () => Found): Promise<Found> {
    return new Promise((resolve, reject) =>
      program.after(0.1, () => {
        if (this.isNetnsUnknown) reject(new Error("EIO"));
        else resolve(look());
      }),
    );
  }
}
