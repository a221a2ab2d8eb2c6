import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { reserveHugepages } from "../machine/hugepages.ts";
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import type { LabRun } from "../machine/lab-run.ts";
import {
  apiServerArguments,
  etcdArguments,
  frontProxyArguments,
  writeCredentials,
  writeFrontProxy,
} from "./control-plane.ts";
import { type KubernetesParts, PROJECT } from "./kubernetes-parts.ts";
import { PAUSE, writeImage } from "./local-image.ts";
import { NodeMachine, SERVICE_ADDRESS } from "./node-machine.ts";
import { type NodeProgramOptions, NodePrograms } from "./node-programs.ts";

/** Name of the first node, and of the only one unless there are workers. */
export const NODE_NAME = "node-1";
/** Of 2 MiB: for the switch and some pods. kubelet counts them once, when it starts. */
const HUGEPAGES = 1024;
/** An address of the Service's own would need kube-proxy. */
const API_SERVER = `https://${SERVICE_ADDRESS}:443`;
const ETCD = "http://127.0.0.1:2379";
const MULTUS_NETWORKS = "test/fixtures/kubernetes/crds/network-attachment-definition.yaml";
/** Each part of the control plane, and kubelet. */
const USERS = {
  admin: ["admin", "system:masters"],
  "controller-manager": ["system:kube-controller-manager", "system:masters"],
  scheduler: ["system:kube-scheduler", ""],
  "kubelet-node-1": ["system:node:node-1", "system:nodes"],
  "kubelet-node-2": ["system:node:node-2", "system:nodes"],
} as const;

type Part = "etcd" | "apiserver" | "controller-manager" | "scheduler" | "containerd" | "kubelet";

/** What a cluster can have that is not as usual. */
export interface NodeOptions extends NodeProgramOptions {
  /** Directory of thick Multus, as {@link MULTUS_THICK_VARIABLE} describes it; default thin Multus. */
  readonly thickMultus?: string;
  /** A second node, connected with the first one. */
  readonly hasWorker?: boolean;
  /** The API server forwards requests to other API servers, as KubeVirt's. */
  readonly hasAggregation?: boolean;
}

/** A cluster of one node or two, of real parts, each node in a machine of its own ({@link NodeMachine}). */
export class KubernetesNode {
  readonly machine: NodeMachine;
  /** The second node's machine, if there is one. */
  readonly worker: NodeMachine | undefined;
  readonly #run: LabRun;
  readonly #parts: KubernetesParts;
  readonly #options: NodeOptions;
  /** Keys, certificates and tokens, on the node's disk. */
  readonly #pki: string;
  readonly #programs: NodePrograms;
  readonly #workerPrograms: NodePrograms | undefined;

  private constructor(run: LabRun, parts: KubernetesParts, options: NodeOptions) {
    this.#run = run;
    this.#options = options;
    this.#parts = parts;
    this.machine = new NodeMachine(run, 1);
    this.#pki = join(this.machine.disk, "pki");
    const programs = (machine: NodeMachine) =>
      new NodePrograms(run, machine, parts, join(this.#pki, `kubelet-${machine.name}.json`), options);
    this.#programs = programs(this.machine);
    this.worker = options.hasWorker === true ? new NodeMachine(run, 2) : undefined;
    this.#workerPrograms = this.worker && programs(this.worker);
  }

  /**
   * Starts everything and waits until the nodes are ready for pods.
   */
  static async start(
    run: LabRun,
    parts: KubernetesParts,
    options: NodeOptions = {},
  ): Promise<KubernetesNode> {
    const { thickMultus, hasAggregation } = options;
    const node = new KubernetesNode(run, parts, options);
    await reserveHugepages(run, 2048, HUGEPAGES);
    await node.machine.boot();
    await node.worker?.boot();
    await node.worker?.connect(node.machine);
    await writeCredentials(node.#pki, API_SERVER, USERS);
    if (hasAggregation === true) await writeFrontProxy(node.#pki);
    const kubeconfig = thickMultus === undefined ? node.kubeconfig : undefined;
    for (const each of node.#all) await each.installNetwork(kubeconfig);
    await node.#startParts();
    run.progress("node: images");
    await node.importImage(await writeImage(join(run.directory, "pause"), PAUSE));
    await node.#untilReady();
    if (thickMultus === undefined) await node.kubectl("apply", "--filename", join(PROJECT, MULTUS_NETWORKS));
    else await node.#installThickMultus(thickMultus);
    return node;
  }

  /** An administrator's credentials for `kubectl` in the machine. */
  get kubeconfig(): string {
    return join(this.#pki, "admin.json");
  }

  /** Runs kubectl in the machine. */
  async kubectl(...args: readonly string[]): Promise<string> {
    const { kubectl } = await kubernetesTools();
    const options = { limitMs: 180_000 };
    return (await this.machine.exec(kubectl, ["--kubeconfig", this.kubeconfig, ...args], options)).stdout;
  }

  /** Loads an OCI archive into containerd on all nodes. */
  async importImage(archive: string): Promise<void> {
    for (const each of this.#all) await each.importImage(archive);
  }

  /** Gives an image a further name on all nodes. */
  async tagImage(name: string, further: string): Promise<void> {
    for (const each of this.#all) await each.tagImage(name, further);
  }

  /** SIGKILL, on the first node. */
  kill(part: Part): Promise<void> {
    return this.#programs.kill(part);
  }

  /** Starts a part of the first node that was killed. */
  async restart(part: "kubelet" | "containerd" | "apiserver"): Promise<void> {
    if (part === "kubelet") return await this.#programs.startKubelet();
    await (part === "containerd" ? this.#programs.startContainerd() : this.#startApiServer());
  }

  /** Kills the first process of a pod's sandbox on the first node: kubelet makes another sandbox. */
  killSandbox(pod: string): Promise<void> {
    return this.#programs.killSandbox(pod);
  }

  /** The power of the first node fails, and comes back: processes, mounts and /run are gone, the disk is as it was. */
  async reboot(): Promise<void> {
    await this.machine.powerOff();
    this.#programs.forget();
    await this.machine.boot();
    await this.worker?.connect(this.machine);
    await this.#startParts();
    await this.#untilReady();
  }

  get #all(): readonly NodePrograms[] {
    return this.#workerPrograms === undefined ? [this.#programs] : [this.#programs, this.#workerPrograms];
  }

  async #startParts(): Promise<void> {
    this.#run.progress("node: etcd and the API server");
    await this.#startControlPlane();
    this.#run.progress("node: containerd and kubelet");
    for (const each of this.#all) {
      await each.startContainerd();
      await each.startKubelet();
    }
  }

  async #startControlPlane(): Promise<void> {
    const parts = this.#parts;
    const data = join(this.machine.disk, "etcd");
    await this.#programs.start("etcd", parts.etcd, etcdArguments(data, ETCD, "http://127.0.0.1:2380"));
    await this.#startApiServer();
    await this.#programs.start("controller-manager", parts.controllerManager, [
      ...this.#clientOf("controller-manager"),
      "--leader-elect=false",
      `--service-account-private-key-file=${join(this.#pki, "service-accounts.key")}`,
      `--root-ca-file=${join(this.#pki, "apiserver.crt")}`,
    ]);
    await this.#programs.start("scheduler", parts.scheduler, [
      ...this.#clientOf("scheduler"),
      "--leader-elect=false",
    ]);
  }

  async #startApiServer(): Promise<void> {
    await this.#programs.start("apiserver", this.#parts.apiServer, [
      ...apiServerArguments(this.#pki, ETCD),
      ...(this.#options.hasAggregation === true ? frontProxyArguments(this.#pki) : []),
      ...["--bind-address=0.0.0.0", "--secure-port=443", `--advertise-address=${this.machine.address}`],
      `--service-cluster-ip-range=${SERVICE_ADDRESS.replace(/\d+$/, "0")}/24`,
      // There is no DNS for the node's name.
      "--kubelet-preferred-address-types=InternalIP",
    ]);
    const isUp = () => this.kubectl("get", "--raw", "/readyz").catch(() => undefined);
    await this.#programs.wait("apiserver", "the API server is ready", isUp);
  }

  async #untilReady(): Promise<void> {
    const condition = '{.items[*].status.conditions[?(@.type=="Ready")].status}';
    const all = this.#all.map(() => "True").join(" ");
    const isReady = async () =>
      (await this.kubectl("get", "nodes", "--output", `jsonpath=${condition}`)) === all;
    await this.#programs.wait("kubelet", "the nodes are ready", isReady);
  }

  /** By Multus' own manifest, on an image of its programs with the name that is in it. */
  async #installThickMultus(directory: string): Promise<void> {
    const manifest = join(directory, "multus-daemonset-thick.yml");
    const [, name = ""] = /image: (\S+)/.exec(await readFile(manifest, "utf8")) ?? [];
    const programs = (await readdir(directory)).filter((file) => !file.endsWith(".yml"));
    const files = programs.map((file) => [`usr/src/multus-cni/bin/${file}`, join(directory, file)]);
    const image = {
      name,
      // The daemon looks up its user's name, and the runtime gives it paths below /var/run.
      files: { ...Object.fromEntries(files), "etc/passwd": "/etc/passwd" },
      links: { "var/run": "/run" },
      entrypoint: [],
    };
    await this.importImage(await writeImage(join(this.#run.directory, "multus"), image));
    await this.kubectl("apply", "--filename", manifest);
    await this.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-multus-ds", "--timeout=2m");
    // containerd reads the configuration that Multus wrote.
    const isThere = () => this.machine.sh("ls /etc/cni/net.d/00-multus.conf").catch(() => undefined);
    await this.#programs.wait("kubelet", "Multus has written its configuration", isThere);
  }

  #clientOf(user: string): readonly string[] {
    return [`--kubeconfig=${join(this.#pki, `${user}.json`)}`];
  }
}
