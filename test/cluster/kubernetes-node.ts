import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Child } from "../machine/child.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { apiServerArguments, etcdArguments, writeCredentials } from "./control-plane.ts";
import { type KubernetesParts, PROJECT, shimDirectory } from "./kubernetes-parts.ts";
import { PAUSE, writeImage } from "./local-image.ts";
import { installPrograms, NODE_ADDRESS, NodeMachine, SERVICE_ADDRESS } from "./node-machine.ts";

/** The only node's name. */
export const NODE_NAME = "node-1";
/** Of 2 MiB: for the switch and some pods. kubelet counts them once, when it starts. */
const HUGEPAGES = 1024;
/** An address of the Service's own would need kube-proxy. */
const API_SERVER = `https://${SERVICE_ADDRESS}:443`;
const ETCD = "http://127.0.0.1:2379";
const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";
const MULTUS_NETWORKS = "test/fixtures/kubernetes/crds/network-attachment-definition.yaml";
/** Each part of the control plane, and kubelet. */
const USERS = {
  admin: ["admin", "system:masters"],
  "controller-manager": ["system:kube-controller-manager", "system:masters"],
  scheduler: ["system:kube-scheduler", ""],
  kubelet: [`system:node:${NODE_NAME}`, "system:nodes"],
} as const;

type Part = "etcd" | "apiserver" | "controller-manager" | "scheduler" | "containerd" | "kubelet";

/** What a node can have that is not as usual. */
export interface NodeOptions {
  /** Directory of thick Multus, as {@link MULTUS_THICK_VARIABLE} describes it; default thin Multus. */
  readonly thickMultus?: string;
  /** kubelet sees two NUMA nodes, and gives a container devices of one only. */
  readonly hasTwoNumaNodes?: boolean;
}

/** A cluster of one node, of real parts, in a machine of its own ({@link NodeMachine}). */
export class KubernetesNode {
  readonly machine: NodeMachine;
  readonly #run: LabRun;
  readonly #parts: KubernetesParts;
  readonly #options: NodeOptions;
  /** Keys, certificates and tokens, on the node's disk. */
  readonly #pki: string;
  readonly #running = new Map<Part, Child>();
  #starts = 0;

  private constructor(run: LabRun, parts: KubernetesParts, options: NodeOptions) {
    this.#run = run;
    this.#options = options;
    this.#parts = parts;
    this.machine = new NodeMachine(run);
    this.#pki = join(this.machine.disk, "pki");
  }

  /**
   * Starts everything and waits until the node is ready for pods.
   */
  static async start(
    run: LabRun,
    parts: KubernetesParts,
    options: NodeOptions = {},
  ): Promise<KubernetesNode> {
    const { thickMultus } = options;
    const node = new KubernetesNode(run, parts, options);
    await reserveHugepages(run, 2048, HUGEPAGES);
    await node.machine.boot();
    await writeCredentials(node.#pki, API_SERVER, USERS);
    await node.#installNetwork(thickMultus === undefined);
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

  /** Loads an OCI archive into containerd, as `ctr image import` does. */
  async importImage(archive: string): Promise<void> {
    const { ctr } = this.#parts;
    await this.machine.exec(
      ctr,
      ["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", "images", "import", archive],
      { limitMs: 300_000 },
    );
  }

  /** SIGKILL. */
  async kill(part: Part): Promise<void> {
    const child = this.#running.get(part);
    child?.kill("SIGKILL");
    await child?.ended;
  }

  /** Starts a part that was killed. */
  async restart(part: "kubelet" | "containerd" | "apiserver"): Promise<void> {
    if (part === "kubelet") return await this.#startKubelet();
    await (part === "containerd" ? this.#startContainerd() : this.#startApiServer());
  }

  /** Kills the first process of a pod's sandbox: kubelet makes another sandbox. */
  async killSandbox(pod: string): Promise<void> {
    const ctr = [this.#parts.ctr, "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"].join(" ");
    const filter = `labels."io.kubernetes.pod.name"==${pod},labels."io.cri-containerd.kind"==sandbox`;
    await this.machine.sh(`${ctr} tasks kill --signal SIGKILL $(${ctr} containers list --quiet '${filter}')`);
  }

  /** The power fails, and comes back: processes, mounts and /run are gone, the disk is as it was. */
  async reboot(): Promise<void> {
    await this.machine.powerOff();
    this.#running.clear();
    await this.machine.boot();
    await this.#startParts();
    await this.#untilReady();
  }

  async #startParts(): Promise<void> {
    this.#run.progress("node: etcd and the API server");
    await this.#startControlPlane();
    this.#run.progress("node: containerd and kubelet");
    await this.#startContainerd();
    await this.#startKubelet();
  }

  async #startControlPlane(): Promise<void> {
    const parts = this.#parts;
    const data = join(this.machine.disk, "etcd");
    await this.#start("etcd", parts.etcd, etcdArguments(data, ETCD, "http://127.0.0.1:2380"));
    await this.#startApiServer();
    await this.#start("controller-manager", parts.controllerManager, [
      ...this.#clientOf("controller-manager"),
      "--leader-elect=false",
      `--service-account-private-key-file=${join(this.#pki, "service-accounts.key")}`,
      `--root-ca-file=${join(this.#pki, "apiserver.crt")}`,
    ]);
    await this.#start("scheduler", parts.scheduler, [...this.#clientOf("scheduler"), "--leader-elect=false"]);
  }

  async #startApiServer(): Promise<void> {
    await this.#start("apiserver", this.#parts.apiServer, [
      ...apiServerArguments(this.#pki, ETCD),
      ...["--bind-address=0.0.0.0", "--secure-port=443", `--advertise-address=${NODE_ADDRESS}`],
      `--service-cluster-ip-range=${SERVICE_ADDRESS.replace(/\d+$/, "0")}/24`,
      // There is no DNS for the node's name.
      "--kubelet-preferred-address-types=InternalIP",
    ]);
    const isUp = () => this.kubectl("get", "--raw", "/readyz").catch(() => undefined);
    await this.#wait("apiserver", "the API server is ready", isUp);
  }

  async #startContainerd(): Promise<void> {
    const { containerd, runc, ctr } = this.#parts;
    await this.machine.write(
      "/etc/containerd/config.toml",
      `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "${CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE.name}"
  enable_cdi = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "${runc}"
`,
    );
    const path = `PATH=${shimDirectory(this.#parts)}:/usr/sbin:/usr/bin:/sbin:/bin`;
    await this.#start("containerd", "env", [path, containerd, "--config", "/etc/containerd/config.toml"]);
    const answers = () =>
      this.machine.exec(ctr, ["--address", CONTAINERD_SOCKET, "version"]).catch(() => undefined);
    await this.#wait("containerd", "containerd answers", answers);
  }

  async #startKubelet(): Promise<void> {
    const config = {
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
      ...{ cgroupDriver: "cgroupfs", cgroupRoot: this.machine.cgroup, failCgroupV1: false },
      ...{ enforceNodeAllocatable: [], failSwapOn: false, makeIPTablesUtilChains: false },
      authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
      authorization: { mode: "AlwaysAllow" },
      evictionHard: { "memory.available": "50Mi" },
      imageGCHighThresholdPercent: 100,
      ...{ nodeStatusUpdateFrequency: "1s", resolvConf: "" },
      // kubelet prepares a claim again at its next sync, and waits longer each time for a container that a test killed.
      syncFrequency: "5s",
      ...{ featureGates: { KubeletCrashLoopBackOffMax: true } },
      ...{ crashLoopBackOff: { maxContainerRestartPeriod: "1s" } },
      ...(this.#options.hasTwoNumaNodes === true ? { topologyManagerPolicy: "single-numa-node" } : {}),
    };
    if (this.#options.hasTwoNumaNodes === true) await this.machine.showNumaNodes(2);
    await this.machine.write("/etc/kubernetes/kubelet.json", JSON.stringify(config));
    await this.#start("kubelet", this.#parts.kubelet, [
      ...this.#clientOf("kubelet"),
      ...["--config=/etc/kubernetes/kubelet.json", `--hostname-override=${NODE_NAME}`],
      `--node-ip=${NODE_ADDRESS}`,
    ]);
  }

  async #untilReady(): Promise<void> {
    const condition = '{.items[*].status.conditions[?(@.type=="Ready")].status}';
    const isReady = async () =>
      (await this.kubectl("get", "nodes", "--output", `jsonpath=${condition}`)) === "True";
    await this.#wait("kubelet", "the node is ready", isReady);
  }

  /** The pods' own network, a bridge in the machine; thin Multus before it. */
  async #installNetwork(thin: boolean): Promise<void> {
    const { multus, cniPlugins } = this.#parts;
    const plugins = ["bridge", "loopback", "host-local"];
    await installPrograms(this.machine, {
      ...(thin ? { "/opt/cni/bin/multus": multus } : {}),
      ...Object.fromEntries(plugins.map((name) => [`/opt/cni/bin/${name}`, join(cniPlugins, name)])),
    });
    const pods = {
      ...{ cniVersion: "1.0.0", name: "pods", type: "bridge", bridge: "cni0", isGateway: true },
      ipam: { type: "host-local", subnet: "10.244.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
    };
    await this.machine.write("/etc/cni/net.d/10-pods.conf", JSON.stringify(pods));
    if (!thin) return;
    const network = { cniVersion: "1.0.0", name: "multus", type: "multus", kubeconfig: this.kubeconfig };
    const content = JSON.stringify({ ...network, delegates: [pods] });
    await this.machine.write("/etc/cni/net.d/00-multus.conf", content);
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
    await this.#wait("kubelet", "Multus has written its configuration", isThere);
  }

  #clientOf(user: keyof typeof USERS): readonly string[] {
    return [`--kubeconfig=${join(this.#pki, `${user}.json`)}`];
  }

  async #start(part: Part, program: string, args: readonly string[]): Promise<void> {
    this.#starts += 1;
    this.#running.set(part, await this.machine.start(`${part}-${this.#starts}`, program, args));
  }

  /** @throws Failure with the part's last lines where it ends, or takes too long */
  async #wait(part: Part, what: string, poll: () => Promise<unknown>): Promise<void> {
    const child = this.#running.get(part);
    const met = async () => Boolean(await poll()) || undefined;
    const wait = waitUntil(met, { what, limitMs: 180_000, everyMs: 200, signal: this.#run.cleanup.signal });
    try {
      await Promise.race([wait, child?.died]);
    } catch (error) {
      this.#run.progress(`${part}: ${await child?.logTail()}`);
      throw error;
    }
  }
}
