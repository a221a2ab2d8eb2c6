import type { Logger } from "../../../src/logging/logger.ts";
import type { Json } from "../../stand-in/api-server/object-store.ts";
import { HEALTHY, SimulatedApiServer } from "../simulated-api.ts";
import { Simulation } from "../simulation.ts";
import { ControllerProgram } from "./controller-program.ts";
import { Invariants } from "./invariants.ts";
import { IpamNode } from "./ipam-node.ts";
import { NETWORKS, OBJECTS } from "./networks.ts";
import { type Sandbox, Truth } from "./truth.ts";

/** A pod of one network. */
export interface Pod {
  readonly uid: string;
  readonly name: string;
  readonly network: string;
  readonly node: IpamNode;
  /** Whether kubelet keeps a sandbox of it. */
  isWanted: boolean;
  sandbox: Sandbox | undefined;
}

/** How a DEL comes: before its network namespace is gone, after it, on its way for long, never, or twice. */
export type DelTiming = "on time" | "late" | "delayed" | "lost" | "twice";

export const NAMESPACE = "tenant";
const PODS = `${NAMESPACE}/pods`;
const KEPT_LINES = 400;

/** A cluster of nodes with agents, controllers and an API server, and what kubelets and runtimes do. */
export class IpamCluster {
  readonly simulation: Simulation;
  readonly server: SimulatedApiServer;
  readonly truth = new Truth();
  readonly invariants: Invariants;
  readonly nodes: readonly IpamNode[];
  readonly controllers: readonly ControllerProgram[];
  readonly pods = new Set<Pod>();
  readonly #byContainer = new Map<string, Sandbox>();
  /** What happened last. */
  readonly lines: string[] = [];
  #containers = 0;

  constructor(seed: number) {
    this.simulation = new Simulation(seed);
    this.server = new SimulatedApiServer(this.simulation);
    this.invariants = new Invariants(this);
    this.server.onWrite = (write) => this.invariants.onWrite(write);
    for (const [collection, object] of OBJECTS) this.server.store.create(collection, object);
    this.nodes = ["node-1", "node-2", "node-3"].map((name) => new IpamNode(this, name));
    this.controllers = ["control-1", "control-2"].map((name) => new ControllerProgram(this, name));
    for (const node of this.nodes) this.register(node);
  }

  start(): void {
    for (const node of this.nodes) node.startAgent();
    this.controllers[0]?.start();
  }

  /** Ends all programs. */
  close(): void {
    for (const node of this.nodes) node.powerOff();
    for (const controller of this.controllers) controller.kill();
  }

  note(line: string): void {
    this.lines.push(`${(this.simulation.nowMs / 1000).toFixed(3)} ${line}`);
    if (this.lines.length > KEPT_LINES) this.lines.shift();
  }

  loggerOf(name: string): Logger {
    const write = (level: string) => (fields: object | string, message?: string) => {
      const text = typeof fields === "string" ? fields : `${message} ${JSON.stringify(fields, shortened)}`;
      this.note(`${name} ${level} ${text}`);
    };
    const logger: Logger = {
      ...{ debug: write("debug"), info: write("info"), warn: write("warn") },
      ...{ error: write("error"), fatal: write("fatal") },
      child: () => logger,
    };
    return logger;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.simulation.after(ms, resolve));
  }

  get allSandboxes(): Iterable<Sandbox> {
    return this.#byContainer.values();
  }

  sandboxOf(containerId: string): Sandbox | undefined {
    return this.#byContainer.get(containerId);
  }

  /** kubelet makes its Node object where there is none. */
  register(node: IpamNode): void {
    if (this.server.store.find("nodes", node.name) !== undefined) return;
    if (!this.server.isUp || node.habits.isPartitioned || !node.machine.isOn) {
      this.simulation.after(10_000, () => this.register(node));
      return;
    }
    this.server.store.create("nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: node.name },
      spec: {},
    });
    if (node.goneSinceMs !== undefined) node.mustDrain = true;
    node.goneSinceMs = undefined;
  }

  /** A pod that is scheduled to a node, which starts it. */
  startPod(node: IpamNode, name: string, network: string): void {
    const { store, isUp } = this.server;
    if (!isUp || !node.machine.isOn || node.habits.isPartitioned) return;
    if (store.find(PODS, name) !== undefined || store.find("nodes", node.name) === undefined) return;
    const metadata = { name, namespace: NAMESPACE };
    const { uid } = store.create(PODS, {
      ...{ apiVersion: "v1", kind: "Pod", metadata, spec: { nodeName: node.name } },
    }).metadata;
    const pod: Pod = { uid, name, network, node, isWanted: true, sandbox: undefined };
    this.pods.add(pod);
    void this.startSandbox(pod);
  }

  /** A new sandbox of a pod; where its ADD fails, another one after a while. */
  async startSandbox(pod: Pod): Promise<void> {
    const { node, network, uid, name } = pod;
    if (!pod.isWanted || !node.machine.isOn || pod.sandbox !== undefined) return;
    this.#containers += 1;
    const containerId = `c${this.#containers}`;
    const sandbox: Sandbox = {
      ...{ containerId, interfaceName: "net1", netns: `/run/netns/${containerId}`, network },
      ...{ space: NETWORKS[network]?.space ?? "", node: node.name },
      ...{ pod: { uid, name, namespace: NAMESPACE }, addresses: undefined, ips: [], isOver: false },
      ...{ netnsGoneAtMs: undefined, isForgotten: false, isReleased: false },
    };
    pod.sandbox = sandbox;
    this.#byContainer.set(containerId, sandbox);
    node.sandboxes.add(sandbox);
    node.namespaces.add(sandbox.netns);
    const { simulation } = this;
    const isLate = simulation.percent(3);
    let expected = false;
    // Not sooner: the agent may learn meanwhile that the pool has become smaller.
    const beforeRequest = () => {
      expected = !isLate && this.invariants.beforeAdd(node, sandbox);
    };
    const delayMs = isLate ? 90_000 * simulation.random() : 1;
    const answer = await node.call("ADD", sandbox, delayMs, [], beforeRequest);
    if (sandbox.isOver) return;
    if (answer?.exitCode === 0) {
      const { ips } = JSON.parse(answer.stdout) as { readonly ips: readonly { readonly address: string }[] };
      this.note(`${node.name} ${name} ${containerId}: ${ips.map(({ address }) => address)}`);
      sandbox.ips = ips;
      this.invariants.onGiven(
        node,
        sandbox,
        ips.map(({ address }) => address.split("/")[0] ?? ""),
      );
      return;
    }
    this.invariants.onRefused(node, sandbox, expected, answer);
    this.endSandbox(pod, simulation.percent(80) ? "on time" : "lost");
    simulation.after(simulation.between(10_000, 40_000), () => void this.startSandbox(pod));
  }

  /** The runtime ends a pod's sandbox. */
  endSandbox(pod: Pod, timing: DelTiming): void {
    const { sandbox, node } = pod;
    if (sandbox === undefined) return;
    pod.sandbox = undefined;
    this.truth.over(sandbox, node.machine);
    node.sandboxes.delete(sandbox);
    const unmount = () => {
      node.namespaces.delete(sandbox.netns);
      sandbox.netnsGoneAtMs ??= node.machine.monotonicMs;
    };
    const { simulation } = this;
    const del = (delayMs: number) => node.call("DEL", sandbox, delayMs);
    const later = () => simulation.between(30_000, 200_000);
    if (timing === "on time" || timing === "twice") {
      void del(1).then(unmount, unmount);
      // Also where the agent dies meanwhile.
      simulation.after(65_000, unmount);
      if (timing === "twice") simulation.after(later(), () => void del(1));
      return;
    }
    unmount();
    if (timing === "late") simulation.after(later(), () => void del(1));
    if (timing === "delayed") void del(later());
  }

  /** A pod is deleted: its sandbox ends, and its object goes when kubelet reaches the API server. */
  endPod(pod: Pod, timing: DelTiming): void {
    pod.isWanted = false;
    this.endSandbox(pod, timing);
    this.#finalise(pod);
  }

  /** Its object goes at once, whatever its sandbox does. */
  removePod(pod: Pod): void {
    const { store } = this.server;
    if (store.find(PODS, pod.name)?.metadata.uid === pod.uid) store.remove(PODS, pod.name, {});
    if (pod.sandbox === undefined && !pod.isWanted) this.pods.delete(pod);
  }

  /** A node's power fails: its sandboxes end without a DEL. */
  powerOff(node: IpamNode): void {
    node.powerOff();
    for (const pod of this.pods) if (pod.node === node) pod.sandbox = undefined;
  }

  /** It starts again, with the pods that the API server still has for it; nothing says any more that it is off. */
  powerOn(node: IpamNode): void {
    this.taint(node, false);
    node.powerOn();
    this.register(node);
    for (const pod of this.pods) {
      if (pod.node !== node) continue;
      this.simulation.after(this.simulation.between(1_000, 20_000), () => void this.startSandbox(pod));
    }
  }

  /** An administrator, or the cloud, deletes the Node object of a machine that is off, and with it its pods. */
  deleteNode(node: IpamNode): void {
    const { store } = this.server;
    if (node.machine.isOn || store.find("nodes", node.name) === undefined) return;
    store.remove("nodes", node.name, {});
    node.goneSinceMs ??= this.simulation.nowMs;
    this.simulation.after(this.simulation.between(5_000, 60_000), () => this.collectPodsOf(node));
  }

  /** A partition ends. */
  heal(node: IpamNode): void {
    node.habits.isPartitioned = false;
    for (const watch of this.server.watches) watch.heal();
  }

  /** Everything works again: what is off starts, and stays on. */
  async makePeace(minutes: number): Promise<void> {
    this.server.isUp = true;
    for (const node of this.nodes) {
      node.isNetnsUnknown = false;
      node.program?.killAfter(Number.POSITIVE_INFINITY);
      node.machine.rate = 1;
      node.machine.disk.failure = undefined;
      Object.assign(node.habits, HEALTHY);
      this.heal(node);
      if (!node.machine.isOn) this.powerOn(node);
      this.register(node);
      node.startAgent();
    }
    for (const pod of this.pods) if (!pod.isWanted || pod.node.mustDrain) this.endPod(pod, "lost");
    for (const { habits, machine, program } of this.controllers) {
      Object.assign(habits, HEALTHY);
      program?.killAfter(Number.POSITIVE_INFINITY);
      machine.rate = 1;
    }
    this.controllers[0]?.start();
    await this.simulation.advance(minutes * 60_000);
  }

  /** The garbage collector removes pods of a node that does not exist, or says that it is off. */
  collectPodsOf(node: IpamNode): void {
    if (node.goneSinceMs === undefined) return;
    for (const pod of this.pods) {
      if (pod.node !== node) continue;
      pod.isWanted = false;
      this.removePod(pod);
    }
  }

  #finalise(pod: Pod): void {
    if (!this.server.isUp || pod.node.habits.isPartitioned || !pod.node.machine.isOn) {
      if (pod.node.goneSinceMs === undefined) this.simulation.after(10_000, () => this.#finalise(pod));
      else this.removePod(pod);
    } else this.removePod(pod);
  }

  /** Sets a Node's taint that says that its machine is off, or removes it. */
  taint(node: IpamNode, isOutOfService: boolean): void {
    const { store } = this.server;
    if (store.find("nodes", node.name) === undefined) return;
    const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
    const body: Json = { spec: { taints: isOutOfService ? [taint] : [] } };
    store.merge("nodes", node.name, body);
    node.goneSinceMs = isOutOfService ? (node.goneSinceMs ?? this.simulation.nowMs) : undefined;
  }
}

function shortened(key: string, value: unknown): unknown {
  return key === "err" && value instanceof Error ? value.message : value;
}
