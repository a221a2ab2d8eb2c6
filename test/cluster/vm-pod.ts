import { createHash, randomBytes } from "node:crypto";
import { chmod, chown, mkdir, readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Failure, toFailure } from "../../src/failure/failure.ts";
import { portName } from "../../src/names/port-name.ts";
import { Guest } from "../guest/guest.ts";
import type { GuestImage } from "../guest/image.ts";
import { type LibvirtNode, startLibvirtNode } from "../lab/libvirt-node.ts";
import { type Container, type Mount, type Pod, startPod } from "../lab/pod.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import type { AdmittedContainer } from "../stand-in/kubelet/pod.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import type { NetworkStatus } from "../stand-in/multus/network-status.ts";
import { networkInfo, podInterfaceName, projectNetworkInfo } from "../stand-in/virt-launcher/network-info.ts";
import {
  type DefinedVm,
  type KubevirtVersion,
  VirtLauncher,
} from "../stand-in/virt-launcher/virt-launcher.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import { type ClusterNode, SOCKETS } from "./cluster-node.ts";
import { labDomain } from "./lab-domain.ts";
import { PodClaims } from "./pod-claims.ts";

const PROJECT = resolve(import.meta.dirname, "../..");
const SIDECAR = "hook-sidecar-0";
/** Where a foreign device plugin would mount a directory of its own for each allocation. */
const FOREIGN_ROOT = "/var/lib/foreign-sockets";

/** A virt-launcher pod to be. */
export interface VmPodOptions {
  readonly run: LabRun;
  readonly node: ClusterNode;
  /** Unique in the run, short. */
  readonly name: string;
  readonly vmi: VirtualMachineInstance;
  readonly network: SelectedNetwork;
  /** Networks that are not `network`, by their names in the VMI. */
  readonly otherNetworks?: Readonly<Record<string, SelectedNetwork>>;
  readonly image: GuestImage;
  readonly kubevirtVersion?: KubevirtVersion;
  /**
   * Play a foreign device plugin: the socket's path holds the allocation's id, so it differs between the nodes
   * and only the sidecar's symlink makes it constant.
   */
  readonly foreignPaths?: boolean;
  /** Has the claims of the VM's networks. */
  readonly api?: FakeApiServer;
}

/** A virt-launcher pod, from admission to its end, one step a method as the cluster does them. */
export class VmPod {
  readonly name: string;
  /** As the cluster knows the pod. */
  readonly podName: string;
  readonly node: ClusterNode;
  readonly domainName: string;
  readonly #options: VmPodOptions;
  readonly #claims: PodClaims | undefined;
  readonly #containerId = randomBytes(32).toString("hex");
  #compute: AdmittedContainer | undefined;
  #uid = "";
  #pod: Pod | undefined;
  #status: readonly NetworkStatus[] = [];
  #libvirt: LibvirtNode | undefined;
  #sidecar: Container | undefined;
  #launcher: VirtLauncher | undefined;
  #guest: Guest | undefined;

  constructor(options: VmPodOptions) {
    this.#options = options;
    this.name = options.name;
    // As KubeVirt and Kubernetes name it.
    const random = createHash("sha256").update(options.name).digest("hex").slice(0, 5);
    this.podName = `virt-launcher-${options.vmi.metadata.name}-${random}`;
    this.node = options.node;
    this.#claims = options.api && new PodClaims(options.node, options.api);
    this.domainName = `${options.vmi.metadata.namespace}_${options.vmi.metadata.name}`;
  }

  /**
   * kubelet admits the pod: Allocate, and Prepare. The VM's own request and KubeVirt's one for each network add up.
   * @param uid of the pod's object, where it has one
   */
  async allocate(uid?: string): Promise<AdmittedContainer> {
    const { vmi } = this.#options;
    const asked = Number(vmi.spec.domain.resources?.limits?.[SOCKETS] ?? 0);
    const added = (vmi.spec.networks ?? []).filter(({ multus }) => multus !== undefined).length;
    const admission = await this.node.kubelet.admitPod({
      namespace: vmi.metadata.namespace,
      name: this.podName,
      ...(uid === undefined ? {} : { uid }),
      containers: [{ name: "compute", resources: { [SOCKETS]: asked + added } }],
    });
    if (admission.phase === "Failed") throw new Error(`pod ${this.name}: ${admission.message}`);
    this.#uid = admission.uid;
    [this.#compute] = admission.containers;
    if (this.#compute === undefined) throw new Error("kubelet answered no container");
    await this.#claims?.prepare({ name: this.podName, uid: this.#uid }, vmi);
    return this.#compute;
  }

  /** The runtime makes the sandbox and Multus attaches its networks: CNI ADD. */
  async attach(): Promise<readonly NetworkStatus[]> {
    const { vmi, run } = this.#options;
    this.#pod ??= await startPod(run, this.name);
    const networks = (vmi.spec.networks ?? [])
      .filter(({ multus }) => multus !== undefined)
      .map(({ name }) => {
        const mac = vmi.spec.domain.devices.interfaces?.find((one) => one.name === name)?.macAddress;
        return {
          ...(this.#options.otherNetworks?.[name] ?? this.#options.network),
          interface: podInterfaceName(vmi, name),
          ...(mac === undefined ? {} : { mac }),
        };
      });
    const { networkStatus } = await this.node.multus.attach({ ...this.#sandbox(), networks });
    this.#status = networkStatus;
    return networkStatus;
  }

  /** Starts the containers: compute with its libvirtd, the sidecar; virt-launcher collects the sidecar's hook. */
  async launch(): Promise<void> {
    const pod = this.#require(this.#pod, "attach");
    const { run, vmi } = this.#options;
    const directories = {
      hooks: join(pod.directory, "hooks"),
      podinfo: join(pod.directory, "podinfo"),
      console: join(pod.directory, "console"),
    };
    for (const directory of [...Object.values(directories), join(directories.hooks, SIDECAR)]) {
      await mkdir(directory, { recursive: true });
      // An emptyDir in a pod with fsGroup 107.
      await chown(directory, 0, 107);
      await chmod(directory, 0o2777);
    }
    await pod.network.addTap("tap0");
    const { image } = this.#options;
    const claimMounts = this.#claims?.mounts ?? [];
    const imageDirectories = [...new Set([dirname(image.kernel), dirname(image.initrd)])];
    this.#libvirt = await startLibvirtNode(pod, {
      // KubeVirt's emptyDir of hugepages has the size that the VM asks for.
      hugepages: vmi.spec.domain.memory?.hugepages?.pageSize === "1Gi" ? "1G" : "2M",
      mounts: [
        ...this.#socketMounts(),
        ...claimMounts,
        { hostPath: directories.hooks, containerPath: "/var/run/kubevirt-hooks" },
        { hostPath: directories.console, containerPath: "/var/run/kubevirt-private" },
        ...imageDirectories.map((path) => ({ hostPath: path, containerPath: path, readOnly: true })),
      ],
    });
    this.#sidecar = await pod.startContainer({
      name: SIDECAR,
      command: ["/opt/kube-vhostuser/dist/sidecar/main.mjs"],
      uid: 107,
      gid: 107,
      env: {
        PATH: "/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        CONTAINER_NAME: SIDECAR,
        VHOSTUSER_LOG_LEVEL: "debug",
      },
      mounts: [
        { hostPath: process.execPath, containerPath: "/opt/bin/node", readOnly: true },
        { hostPath: join(PROJECT, "dist"), containerPath: "/opt/kube-vhostuser/dist", readOnly: true },
        { hostPath: join(directories.hooks, SIDECAR), containerPath: "/var/run/kubevirt-hooks" },
        { hostPath: directories.podinfo, containerPath: "/etc/podinfo", readOnly: true },
        // By deploy/kubevirt/sidecar-claims.yaml.
        ...claimMounts,
      ],
    });
    this.#launcher = new VirtLauncher({
      hooksDirectory: directories.hooks,
      kubevirtVersion: this.#options.kubevirtVersion ?? "1.9",
      libvirt: this.#libvirt,
      domainType: "qemu",
      adapt: labDomain(image),
    });
    this.#guest = new Guest(this.name, join(directories.console, "virt-serial0"));
    run.cleanup.defer(`console of ${this.name}`, () => this.#guest?.console.close());
    await this.#launcher.collectHooks(1);
    // virt-controller writes it once the pod is Ready, so after the sidecar serves.
    await projectNetworkInfo(
      join(directories.podinfo, "network-info"),
      networkInfo(vmi, this.#shownStatus()),
    );
  }

  /** virt-launcher asks the sidecar as often as this KubeVirt does and gives the result to libvirt. */
  async define(): Promise<DefinedVm> {
    return this.#require(this.#launcher, "launch").defineVm(this.#options.vmi);
  }

  /** On a migration's target: one call of the hooks, whose answer is discarded. */
  async prepareAsTarget(): Promise<void> {
    await this.#require(this.#launcher, "launch").prepareMigrationTarget(this.#options.vmi);
  }

  /** Starts QEMU and waits until the guest's shell answers. */
  async boot(): Promise<Guest> {
    await this.libvirt.start(this.domainName);
    await this.guest.waitForBoot().catch(async (cause: unknown) => {
      const state = await this.libvirt.virsh("domstate", "--reason", this.domainName).catch(String);
      const log = await readFile(join(this.libvirt.logDirectory, "qemu", `${this.domainName}.log`), "utf8");
      const what = `${toFailure(cause).message}; domain: ${state.trim()}; QEMU's log ends: ${log.slice(-3000)}`;
      throw new Failure({ code: "internal", what, where: this.name, cause });
    });
    return this.guest;
  }

  get libvirt(): LibvirtNode {
    return this.#require(this.#libvirt, "launch");
  }

  get guest(): Guest {
    return this.#require(this.#guest, "launch");
  }

  /** Host directory of the pod's allocation. */
  get allocationDirectory(): string {
    const [claimed] = this.#claims?.directories ?? [];
    if (claimed !== undefined) return dirname(claimed);
    return this.#require(this.#compute, "allocate").mounts[0]?.hostPath ?? "";
  }

  /** Id of its sandbox, as the CNI executable gets it. */
  get containerId(): string {
    return this.#containerId;
  }

  /** kubelet's uid of the pod. */
  get uid(): string {
    return this.#uid;
  }

  /** Devices that kubelet gave the compute container. */
  get devices(): readonly string[] {
    return this.#require(this.#compute, "allocate").deviceIds[SOCKETS] ?? [];
  }

  /** What Multus reported of the pod's networks; empty before {@link attach}. */
  get networkStatus(): readonly NetworkStatus[] {
    return this.#status;
  }

  /** The pod's interface on the first network. */
  get interfaceName(): string {
    return this.#require(this.#status[0], "attach").interface ?? "";
  }

  /** The MAC of the first vhost-user interface, by the pod's network-status. */
  get mac(): string {
    return this.#require(this.#status[0], "attach").mac ?? "";
  }

  /** The switch's port of the first vhost-user interface. */
  get portName(): string {
    const [first] = this.portNames;
    return this.#require(first, "attach");
  }

  /** The switch's ports, in the order of the VMI's networks. */
  get portNames(): readonly string[] {
    if (this.#claims !== undefined) return this.#claims.portNames;
    return this.#status.map(({ interface: name }) =>
      portName(basename(this.allocationDirectory), name ?? ""),
    );
  }

  get sidecar(): Container {
    return this.#require(this.#sidecar, "launch");
  }

  /** The VM ends, or has migrated: QEMU, libvirtd and the sidecar end. */
  async stop(): Promise<void> {
    this.#guest?.console.close();
    await this.#libvirt?.close();
    await this.#launcher?.shutdown();
    await this.#sidecar?.ended;
  }

  /** Multus detaches the networks (CNI DEL), the runtime removes the sandbox, and kubelet gives claims back. */
  async detach(): Promise<void> {
    await this.node.multus.detach(this.#sandbox());
    await this.#pod?.close();
    await this.#claims?.unprepare();
  }

  /** The pod is deleted; the device plugin is not notified. */
  remove(): void {
    this.node.kubelet.removePod({ namespace: this.#options.vmi.metadata.namespace, name: this.podName });
  }

  #sandbox() {
    const pod = { namespace: this.#options.vmi.metadata.namespace, name: this.podName, uid: this.#uid };
    return { pod, containerId: this.#containerId, netns: this.#pod?.network.path ?? "" };
  }

  #socketMounts(): readonly Mount[] {
    const mounts = this.#require(this.#compute, "allocate").mounts;
    if (this.#options.foreignPaths !== true) return mounts;
    return mounts.flatMap(({ hostPath }) =>
      this.#status.map((status) => ({
        hostPath: join(hostPath, status.interface ?? ""),
        containerPath: this.#foreignDirectory(),
      })),
    );
  }

  #shownStatus(): readonly NetworkStatus[] {
    if (this.#options.foreignPaths !== true) return this.#status;
    const path = join(this.#foreignDirectory(), "vhost.sock");
    const deviceInfo = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
    return this.#status.map((status) => ({ ...status, "device-info": deviceInfo }));
  }

  #foreignDirectory(): string {
    return join(FOREIGN_ROOT, basename(this.allocationDirectory));
  }

  #require<Value>(value: Value | undefined, step: string): Value {
    if (value === undefined) throw new Error(`pod ${this.name}: ${step}() comes first`);
    return value;
  }
}
