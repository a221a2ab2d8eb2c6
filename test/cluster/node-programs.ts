import { join } from "node:path";
import type { Child } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { containerdConfig } from "./containerd-config.ts";
import { type KubernetesParts, shimDirectory } from "./kubernetes-parts.ts";
import { PAUSE } from "./local-image.ts";
import { installPrograms, type NodeMachine } from "./node-machine.ts";

const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";
const CTR = ["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"];

/** What a node can have that is not as usual. */
export interface NodeProgramOptions {
  /** kubelet sees two NUMA nodes, and gives a container devices of one only. */
  readonly hasTwoNumaNodes?: boolean;
}

/** What every node runs in its machine: containerd, kubelet and CNI executables. */
export class NodePrograms {
  readonly #run: LabRun;
  readonly #machine: NodeMachine;
  readonly #parts: KubernetesParts;
  /** kubelet's, in the machine. */
  readonly #kubeconfig: string;
  readonly #options: NodeProgramOptions;
  readonly #running = new Map<string, Child>();
  #starts = 0;

  constructor(
    run: LabRun,
    machine: NodeMachine,
    parts: KubernetesParts,
    kubeconfig: string,
    options: NodeProgramOptions = {},
  ) {
    this.#run = run;
    this.#machine = machine;
    this.#parts = parts;
    this.#kubeconfig = kubeconfig;
    this.#options = options;
  }

  /** Starts a program in the machine, under a name that {@link kill} and {@link wait} take. */
  async start(name: string, program: string, args: readonly string[]): Promise<void> {
    this.#starts += 1;
    const log = `${this.#machine.name}-${name}-${this.#starts}`;
    this.#running.set(name, await this.#machine.start(log, program, args));
  }

  /** SIGKILL. */
  async kill(name: string): Promise<void> {
    const child = this.#running.get(name);
    child?.kill("SIGKILL");
    await child?.ended;
  }

  /** The machine is off. */
  forget(): void {
    this.#running.clear();
  }

  /** @throws Failure with the program's last lines where it ends, or takes too long */
  async wait(name: string, what: string, poll: () => Promise<unknown>): Promise<void> {
    const child = this.#running.get(name);
    const met = async () => Boolean(await poll()) || undefined;
    const wait = waitUntil(met, { what, limitMs: 180_000, everyMs: 200, signal: this.#run.cleanup.signal });
    try {
      await Promise.race([wait, child?.died]);
    } catch (error) {
      this.#run.progress(`${name}: ${await child?.logTail()}`);
      throw error;
    }
  }

  /** Loads an OCI archive into containerd, as `ctr image import` does. */
  async importImage(archive: string): Promise<void> {
    const args = [...CTR, "images", "import", archive];
    await this.#machine.exec(this.#parts.ctr, args, { limitMs: 600_000 });
  }

  /** Gives an image of containerd a further name. */
  async tagImage(name: string, further: string): Promise<void> {
    await this.#machine.exec(this.#parts.ctr, [...CTR, "images", "tag", "--force", name, further]);
  }

  /** Kills the first process of a pod's sandbox: kubelet makes another sandbox. */
  async killSandbox(pod: string): Promise<void> {
    const ctr = [this.#parts.ctr, ...CTR].join(" ");
    const filter = `labels."io.kubernetes.pod.name"==${pod},labels."io.cri-containerd.kind"==sandbox`;
    await this.#machine.sh(
      `${ctr} tasks kill --signal SIGKILL $(${ctr} containers list --quiet '${filter}')`,
    );
  }

  async startContainerd(): Promise<void> {
    const { containerd, runc, ctr } = this.#parts;
    const config = containerdConfig({ socket: CONTAINERD_SOCKET, runc, pauseImage: PAUSE.name });
    await this.#machine.write("/etc/containerd/config.toml", config);
    const path = `PATH=${shimDirectory(this.#parts)}:/usr/sbin:/usr/bin:/sbin:/bin`;
    await this.start("containerd", "env", [path, containerd, "--config", "/etc/containerd/config.toml"]);
    const answers = () => this.#machine.exec(ctr, [...CTR, "version"]).catch(() => undefined);
    await this.wait("containerd", "containerd answers", answers);
  }

  async startKubelet(): Promise<void> {
    const { name, address, cgroup } = this.#machine;
    const hasTwoNumaNodes = this.#options.hasTwoNumaNodes === true;
    const config = {
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
      ...{ cgroupDriver: "cgroupfs", cgroupRoot: cgroup, failCgroupV1: false },
      ...{ enforceNodeAllocatable: [], failSwapOn: false, makeIPTablesUtilChains: false },
      authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
      authorization: { mode: "AlwaysAllow" },
      evictionHard: { "memory.available": "50Mi" },
      imageGCHighThresholdPercent: 100,
      nodeStatusUpdateFrequency: "1s",
      // No DNS answers there, but KubeVirt's DHCP server refuses the search domain "." of a node without.
      ...{ clusterDNS: ["10.96.0.10"], clusterDomain: "cluster.local", resolvConf: "" },
      // kubelet prepares a claim again at its next sync, and waits longer each time for a container that a test killed.
      syncFrequency: "5s",
      ...{ featureGates: { KubeletCrashLoopBackOffMax: true } },
      ...{ crashLoopBackOff: { maxContainerRestartPeriod: "1s" } },
      ...(hasTwoNumaNodes ? { topologyManagerPolicy: "single-numa-node" } : {}),
    };
    if (hasTwoNumaNodes) await this.#machine.showNumaNodes(2);
    await this.#machine.write("/etc/kubernetes/kubelet.json", JSON.stringify(config));
    await this.start("kubelet", this.#parts.kubelet, [
      ...[`--kubeconfig=${this.#kubeconfig}`, "--config=/etc/kubernetes/kubelet.json"],
      ...[`--hostname-override=${name}`, `--node-ip=${address}`],
    ]);
  }

  /**
   * The pods' own network, a bridge in the machine; thin Multus before it.
   * @param multusKubeconfig of thin Multus; undefined for none
   */
  async installNetwork(multusKubeconfig: string | undefined): Promise<void> {
    const { multus, cniPlugins } = this.#parts;
    const plugins = ["bridge", "loopback", "host-local"];
    await installPrograms(this.#machine, {
      ...(multusKubeconfig === undefined ? {} : { "/opt/cni/bin/multus": multus }),
      ...Object.fromEntries(plugins.map((name) => [`/opt/cni/bin/${name}`, join(cniPlugins, name)])),
    });
    const pods = {
      ...{ cniVersion: "1.0.0", name: "pods", type: "bridge", bridge: "cni0", isGateway: true },
      ipam: { type: "host-local", subnet: this.#machine.podSubnet, routes: [{ dst: "0.0.0.0/0" }] },
    };
    await this.#machine.write("/etc/cni/net.d/10-pods.conf", JSON.stringify(pods));
    if (multusKubeconfig === undefined) return;
    const network = { cniVersion: "1.0.0", name: "multus", type: "multus", kubeconfig: multusKubeconfig };
    const content = JSON.stringify({ ...network, delegates: [pods] });
    await this.#machine.write("/etc/cni/net.d/00-multus.conf", content);
  }
}
