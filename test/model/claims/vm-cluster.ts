import { newBlock } from "../../../src/address-objects/address-block.ts";
import { IPAM_API_VERSION } from "../../../src/address-objects/resources.ts";
import { parsePrefix } from "../../../src/addresses/address.ts";
import { claimName } from "../../../src/claims/claim-name.ts";
import { type Agent, startAgent } from "../../../src/ipam-agent/agent.ts";
import { IpamController } from "../../../src/ipam-controller/controller.ts";
import type { Logger } from "../../../src/logging/logger.ts";
import { hashedPodInterfaceName } from "../../../src/names/interface-name.ts";
import type { Json, Stored } from "../../stand-in/api-server/object-store.ts";
import { Machine, type Program } from "../machine.ts";
import { type Habits, HEALTHY, SimulatedApi, SimulatedApiServer } from "../simulated-api.ts";
import { Simulation } from "../simulation.ts";
import { ClaimInvariants } from "./claim-invariants.ts";

const STATE = "/var/lib/kube-vhostuser/ipam";
const DEADLINE_MS = 30_000;
const INTERFACE = hashedPodInterfaceName("blue");
const FINALIZER = "kubevirt.io/persistent-ipam";
const POOLS = ["four", "six"];
/** Two VMs of one name, and one of another. */
export const VMS = ["a/db", "b/db", "a/web"] as const;
export const COOLDOWN_SECONDS = 30;

/** A program that can be killed, and what its requests suffer from. */
interface Runner {
  readonly machine: Machine;
  readonly habits: Habits;
  program: Program | undefined;
  agent?: Agent | undefined;
}

interface Given {
  readonly claim: string;
  readonly ips: readonly string[];
}

/** The sandbox of a launcher pod. */
export interface Launcher {
  readonly vm: string;
  readonly pod: Stored;
  readonly node: Runner;
  readonly network: string;
  container: string;
  /** UID of the claim by which it runs, and the addresses that it was given. */
  given: Given | undefined;
  /** What its former sandbox ran with. */
  had: Given | undefined;
  isOver: boolean;
}

/** Nodes with agents, controllers, and what KubeVirt and kubevirt/ipam-extensions do with VMs, pods and claims. */
export class VmCluster {
  readonly simulation: Simulation;
  readonly server: SimulatedApiServer;
  readonly invariants: ClaimInvariants;
  readonly nodes: readonly Runner[];
  readonly controllers: readonly Runner[];
  /** By namespace and name: the uid of each VM that exists. */
  readonly vms = new Map<string, string>();
  readonly launchers = new Set<Launcher>();
  readonly lines: string[] = [];
  #count = 0;

  constructor(seed: number) {
    this.simulation = new Simulation(seed);
    this.server = new SimulatedApiServer(this.simulation);
    this.invariants = new ClaimInvariants(this);
    this.server.onWrite = (write) => this.invariants.onWrite(write);
    const runner = (name: string): Runner => ({
      ...{ machine: new Machine(name, this.simulation, this.simulation.between(-3_600_000, 3_600_000)) },
      ...{ habits: { ...HEALTHY }, program: undefined },
    });
    this.nodes = ["n1", "n2"].map(runner);
    this.controllers = ["control-1", "control-2"].map(runner);
    const { store } = this.server;
    const put = (collection: string, name: string, spec: Json) =>
      store.create(collection, { apiVersion: IPAM_API_VERSION, metadata: { name }, spec });
    put("addressspaces", "default", { blockPrefixes: { ipv4: 30, ipv6: 126 } });
    const common = { space: "default", mode: "NodeBlocks", cooldownSeconds: COOLDOWN_SECONDS };
    put("addresspools", "four", { ...common, subnets: [{ cidr: "10.0.0.0/28" }] });
    put("addresspools", "six", { ...common, subnets: [{ cidr: "fd00::/124" }] });
    for (const cidr of ["10.0.0.0/30", "10.0.0.4/30", "fd00::/126", "fd00::4/126"]) this.#sharedBlock(cidr);
    for (const { machine } of this.nodes)
      store.create("nodes", { metadata: { name: machine.name }, spec: {} });
    for (const network of ["blue-net", "red-net"]) {
      const config = JSON.stringify(configOf(network));
      store.create("a/network-attachment-definitions", {
        metadata: { namespace: "a", name: network },
        spec: { config },
      });
    }
  }

  note(line: string): void {
    this.lines.push(`${(this.simulation.nowMs / 1000).toFixed(3)} ${line}`);
  }

  startAgent(node: Runner): void {
    if (node.program?.isAlive) return;
    const program = node.machine.run();
    node.program = program;
    const started = startAgent({
      ...{ node: node.machine.name, bootId: node.machine.bootId, claims: "referenced" },
      ...{
        api: new SimulatedApi(this.server, program, node.habits),
        stateDirectory: `${program.root}${STATE}`,
      },
      ...{
        hasNetns: async () => true,
        listNetns: async () => [],
        random: this.simulation.random,
        clock: program.clock,
      },
      logger: this.#loggerOf(node.machine.name),
    });
    started.then((agent) => {
      if (program.isAlive) node.agent = agent;
    }, this.invariants.broken);
  }

  killAgent(node: Runner): void {
    node.program?.kill();
    node.agent = undefined;
    this.simulation.after(2_000, () => this.startAgent(node));
  }

  startController(runner: Runner): void {
    if (runner.program?.isAlive) return;
    const program = runner.machine.run();
    runner.program = program;
    const controller = new IpamController({
      ...{ api: new SimulatedApi(this.server, program, runner.habits), hasClaims: true },
      ...{
        clock: program.clock,
        random: this.simulation.random,
        logger: this.#loggerOf(runner.machine.name),
      },
    });
    controller.run(program.stop.signal).catch((error: unknown) => {
      if (program.isAlive) this.invariants.broken(error);
    });
  }

  /** A VM that is started: its claim, unless another VM's has the name, and its launcher pod on a node. */
  startVm(vm: string, node: Runner, network = "blue-net"): Launcher {
    const [namespace = "", name = ""] = vm.split("/");
    this.#count += 1;
    if (!this.vms.has(vm)) this.vms.set(vm, `vm-${this.#count}`);
    this.#ensureClaim(vm);
    const reference = { "ipam-claim-reference": claimName(name, "blue") };
    const networks = JSON.stringify([{ namespace: "a", name: network, interface: INTERFACE, ...reference }]);
    const annotations = { "k8s.v1.cni.cncf.io/networks": networks, "kubevirt.io/domain": name };
    const labels = { "kubevirt.io": "virt-launcher" };
    const pod = this.server.store.create(`${namespace}/pods`, {
      metadata: { namespace, name: `virt-launcher-${name}-${this.#count}`, annotations, labels },
      spec: { nodeName: node.machine.name },
    });
    const given = { given: undefined, had: undefined };
    const launcher: Launcher = { vm, pod, node, network, container: "", ...given, isOver: false };
    this.launchers.add(launcher);
    void this.#startSandbox(launcher);
    return launcher;
  }

  /** The pod ends, and its object goes; a DEL may never come. */
  endPod(launcher: Launcher, hasDel = true): void {
    launcher.isOver = true;
    launcher.given = undefined;
    this.launchers.delete(launcher);
    if (hasDel) void this.#call("DEL", launcher, launcher.container);
    const { namespace, name } = launcher.pod.metadata;
    this.server.store.remove(`${namespace}/pods`, name, {});
  }

  /** kubelet replaces the sandbox of a pod that goes on. */
  restartSandbox(launcher: Launcher): void {
    launcher.had = launcher.given ?? launcher.had;
    launcher.given = undefined;
    void this.#call("DEL", launcher, launcher.container);
    void this.#startSandbox(launcher);
  }

  /** @param isForeground its claim has a deletionTimestamp before its pods end */
  deleteVm(vm: string, isForeground: boolean): void {
    const claim = this.#claimOf(vm);
    const isOwn = claim !== undefined && ownerOf(claim) === this.vms.get(vm);
    this.vms.delete(vm);
    if (isForeground && isOwn) this.#removeClaim(vm, false);
    for (const launcher of this.launchers) if (launcher.vm === vm) this.endPod(launcher);
    if (isOwn)
      this.simulation.after(this.simulation.between(0, 5_000), () =>
        this.#removeClaim(vm, true, claim.metadata.uid),
      );
  }

  /** Whatever uses the claim. */
  forceDeleteClaim(vm: string): void {
    this.#removeClaim(vm, true);
  }

  /** Everything works, and VMs that should run do. */
  async makePeace(): Promise<void> {
    for (const runner of [...this.nodes, ...this.controllers]) {
      Object.assign(runner.habits, HEALTHY);
      runner.program?.killAfter(Number.POSITIVE_INFINITY);
    }
    for (const watch of this.server.watches) watch.heal();
    for (const node of this.nodes) this.startAgent(node);
    this.startController(this.controllers[0] as Runner);
    await this.simulation.advance(10 * 60_000);
  }

  close(): void {
    for (const { machine } of [...this.nodes, ...this.controllers]) machine.powerOff();
  }

  /** ADD, with a new sandbox after each that failed. */
  async #startSandbox(launcher: Launcher): Promise<void> {
    if (launcher.isOver) return;
    this.#count += 1;
    const container = `c${this.#count}`;
    launcher.container = container;
    const answer = await this.#call("ADD", launcher, container);
    if (launcher.isOver || launcher.container !== container) return;
    if (answer?.exitCode === 0) {
      const ips = (JSON.parse(answer.stdout).ips as { address: string }[]).map(({ address }) => address);
      this.note(`${launcher.pod.metadata.name} on ${launcher.node.machine.name}: ${ips}`);
      this.invariants.onGiven(launcher, ips, this.#claimOf(launcher.vm));
      this.#showStatus(launcher, ips);
      return;
    }
    void this.#call("DEL", launcher, container);
    // The controller of VMs repeats what it could not do: a claim that another VM had may be gone.
    this.#ensureClaim(launcher.vm);
    this.simulation.after(this.simulation.between(5_000, 20_000), () => {
      if (launcher.container === container) void this.#startSandbox(launcher);
    });
  }

  /** As Multus does after all networks are attached. */
  #showStatus({ pod: { metadata }, network }: Launcher, ips: readonly string[]): void {
    const shown = ips.map((ip) => ip.split("/")[0]);
    const status = JSON.stringify([{ name: `a/${network}`, interface: INTERFACE, ips: shown }]);
    const annotations = { "k8s.v1.cni.cncf.io/network-status": status };
    this.server.store.merge(`${metadata["namespace"]}/pods`, metadata.name, { metadata: { annotations } });
  }

  async #call(verb: "ADD" | "DEL", { pod, node, network }: Launcher, container: string) {
    const { agent, program, machine } = node;
    if (agent === undefined || program === undefined || !program.isAlive) return undefined;
    const { namespace, name, uid } = pod.metadata;
    const env = {
      ...{ CNI_COMMAND: verb, CNI_CONTAINERID: container, CNI_IFNAME: INTERFACE },
      CNI_NETNS: `/run/netns/${container}`,
      CNI_ARGS: `K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
    };
    const stdin = Buffer.from(JSON.stringify(configOf(network)));
    const deadline = new AbortController();
    program.after(DEADLINE_MS, () => deadline.abort(new DOMException("not in time", "TimeoutError")));
    const answered = agent.handle({ startedAtMs: machine.monotonicMs, env, stdin }, deadline.signal);
    // An agent that was killed never answers.
    const gone = new Promise<undefined>((resolve) =>
      this.simulation.after(DEADLINE_MS + 5_000, () => resolve(undefined)),
    );
    return Promise.race([answered, gone]);
  }

  #claimOf(vm: string): Stored | undefined {
    const [namespace = "", name = ""] = vm.split("/");
    return this.server.store.find(`${namespace}/ipamclaims`, claimName(name, "blue"));
  }

  #ensureClaim(vm: string): void {
    const uid = this.vms.get(vm);
    if (uid === undefined || this.#claimOf(vm) !== undefined) return;
    const [namespace = "", name = ""] = vm.split("/");
    const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid };
    const metadata = { namespace, name: claimName(name, "blue"), finalizers: [FINALIZER] };
    this.server.store.create(`${namespace}/ipamclaims`, {
      metadata: { ...metadata, ownerReferences: [owner], labels: { "kubevirt.io/vm": name } },
      spec: { network: "blue-net", interface: "" },
    });
  }

  #removeClaim(vm: string, isFinal: boolean, uid?: string): void {
    const claim = this.#claimOf(vm);
    if (claim === undefined || (uid !== undefined && claim.metadata.uid !== uid)) return;
    const [namespace = ""] = vm.split("/");
    const { store } = this.server;
    const collection = `${namespace}/ipamclaims`;
    if (isFinal) store.merge(collection, claim.metadata.name, { metadata: { finalizers: null } });
    if (store.find(collection, claim.metadata.name) !== undefined)
      store.remove(collection, claim.metadata.name, {});
    if (isFinal) this.invariants.onClaimGone(claim);
  }

  #sharedBlock(cidr: string): void {
    const prefix = parsePrefix(cidr);
    if (prefix === undefined) throw new Error(cidr);
    const block = {
      space: "default",
      prefix,
      owner: { kind: "Shared" },
      state: "Bound",
      pool: undefined,
    } as const;
    this.server.store.create("addressblocks", newBlock(block));
  }

  #loggerOf(name: string): Logger {
    const write = (level: string) => (fields: object | string, message?: string) =>
      this.note(
        `${name} ${level} ${typeof fields === "string" ? fields : `${message} ${JSON.stringify(fields)}`}`,
      );
    const logger: Logger = {
      ...{ debug: write("debug"), info: write("info"), warn: write("warn") },
      ...{ error: write("error"), fatal: write("fatal"), child: () => logger },
    };
    return logger;
  }
}

function configOf(name: string): Json {
  const ipam = { type: "kube-vhostuser-ipam", pools: POOLS };
  return { cniVersion: "1.1.0", name, type: "bridge", allowPersistentIPs: true, ipam };
}

function ownerOf({ metadata }: Stored): string | undefined {
  return (metadata["ownerReferences"] as { readonly uid: string }[] | undefined)?.[0]?.uid;
}
