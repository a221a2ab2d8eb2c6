import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type AllocationRecord, deviceNamesOf } from "../../src/records/allocation-record.ts";
import { type ClusterNode, IPAM_PLUGINS, SOCKETS } from "../cluster/cluster-node.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { cniDeviceInfoFile, copyDeviceInfo } from "../stand-in/multus/device-info-files.ts";
import { type Delegate, toDelegate } from "../stand-in/multus/network.ts";
import { pluginEnvironment, pluginStdin } from "../stand-in/multus/plugin-input.ts";
import { ClaimPods } from "./claim-pods.ts";
import { type CniCall, type CniOutcome, callCni } from "./cni-process.ts";
import type { LivingPod, PodInterface, PodSandbox } from "./living-pod.ts";
import type { NetworkVariant } from "./network-variants.ts";
import { Serial } from "./serial.ts";

const PLUGIN_TYPE = "kube-vhostuser";

/** Between what the daemon and what this test take for the moment of an allocation. */
const ADMISSION_MS = 500;

/** How a verb is called, where that differs from Multus without errors. */
export interface CallOddities extends Pick<CniCall, "killAfterMs" | "freeze"> {
  /** What DEL is given for a configuration. */
  readonly stdin?: string;
  readonly withoutNetns?: boolean;
}

/** A node whose runtime a test controls, and the pods that it believes to run. */
export class ChurnNode {
  readonly node: ClusterNode;
  readonly pods: LivingPod[] = [];
  /** Pods that a test runs on the node beside these; they count as living, and no action of the churn touches them. */
  residents: readonly LivingPod[] = [];
  /** Pods with claims, where the node has any. */
  readonly claims: ClaimPods | undefined;
  readonly #netns: string;
  readonly #graceMs: number;
  readonly #kubelet = new Serial();
  #named = 0;

  /** @param api has the claims of the node's pods; default it has none */
  constructor(node: ClusterNode, netns: string, graceMs: number, api?: FakeApiServer) {
    this.node = node;
    this.claims = api && new ClaimPods(node, api, (network) => this.#keys(network));
    this.#netns = netns;
    this.#graceMs = graceMs;
  }

  /** Where host-local keeps its leases, a directory for each network. */
  get leaseDirectory(): string {
    return join(this.node.directory, "leases");
  }

  /** A verb that changes nothing: with it comes an executable that may run IPAM plugins for what was lost. */
  async visit(): Promise<void> {
    await callCni({
      env: {
        ...this.#environment(),
        CNI_COMMAND: "DEL",
        CNI_CONTAINERID: "unknown",
        CNI_IFNAME: "net1",
        CNI_PATH: IPAM_PLUGINS,
      },
      stdin: "",
    });
  }

  /** Has kubelet admit a pod with a device for each network; undefined where kubelet refuses it. */
  admit(networks: readonly NetworkVariant[]): Promise<LivingPod | undefined> {
    return this.#kubelet.run("admit a pod", () => this.#admit(networks));
  }

  /** Kubelet restarts; it admits no pod meanwhile. */
  restartKubelet(downMs: number): Promise<void> {
    return this.#kubelet.run("restart", async () => {
      if (this.claims !== undefined) await this.node.dra.stop();
      await this.node.kubelet.restart({ downMs });
      if (this.claims !== undefined) this.node.dra.start();
    });
  }

  async #admit(networks: readonly NetworkVariant[]): Promise<LivingPod | undefined> {
    const name = `pod-${this.#named++}`;
    const container = { name: "c", resources: { [SOCKETS]: networks.length } };
    const request = { namespace: "tests", name, containers: [container] };
    const admission = await this.node.kubelet.admitPod(request);
    if (admission.phase === "Failed") return undefined;
    const given = admission.containers[0];
    const hostPath = given?.mounts[0]?.hostPath;
    if (given === undefined || hostPath === undefined) throw new Error(`pod ${name} was given no directory`);
    const devices = [...(given.deviceIds[SOCKETS] ?? [])].sort();
    const interfaces = networks.map((network, index) => {
      const device = devices[index];
      if (device === undefined) throw new Error(`pod ${name} was given too few devices`);
      return { name: `net${index + 1}`, device, network };
    });
    const pod = {
      name,
      uid: admission.uid,
      hostPath,
      interfaces,
      admittedAt: Date.now(),
      sandbox: newSandbox(),
    };
    this.pods.push(pod);
    return pod;
  }

  /** The pod has ended for kubelet; DEL may come or not. */
  forget(pod: LivingPod): void {
    this.node.kubelet.removePod({ namespace: "tests", name: pod.name });
    this.pods.splice(this.pods.indexOf(pod), 1);
  }

  /**
   * Whether an allocation may stay though no living pod has it: its device went to a living pod so soon that it
   * may be of an init container of that pod. Such an allocation was not listed in time, or its pod never had an
   * interface. Judged by the daemon's own clock, which may have been off and ignores a slow admission, or by ours.
   * @param given allocations of living pods
   */
  isAmbiguous(allocation: AllocationRecord, given: readonly AllocationRecord[]): boolean {
    const { createdAt, sequence } = allocation;
    const devices = deviceNamesOf(allocation);
    const isSame = (device: string) => devices.includes(device);
    const withinMs = this.#graceMs + ADMISSION_MS;
    const newer = given.filter((other) => other.sequence > sequence && deviceNamesOf(other).some(isSame));
    return (
      newer.some((other) => other.createdAt - createdAt < this.#graceMs) ||
      [...this.pods, ...this.residents].some(
        ({ admittedAt, interfaces }) =>
          admittedAt - createdAt < withinMs && interfaces.some(({ device }) => isSame(device)),
      )
    );
  }

  /** ADD of one interface, with Multus' steps before it. */
  async add(
    pod: LivingPod,
    sandbox: PodSandbox,
    wanted: PodInterface,
    oddities: CallOddities = {},
  ): Promise<CniOutcome> {
    const delegate = this.#delegate(wanted);
    const target = this.#deviceInfoFile(delegate, sandbox);
    const directory = this.node.deviceInfoDirectory;
    const directories = { devicePlugin: join(directory, "dp"), cni: join(directory, "cni") };
    await copyDeviceInfo(directories, delegate, target);
    const outcome = await this.#call("ADD", pod, sandbox, wanted, oddities);
    if (outcome.exitCode === 0) sandbox.attached.set(wanted.name, JSON.parse(outcome.stdout));
    return outcome;
  }

  /** DEL of one interface; Multus removes the attachment's device-info in any case. */
  async del(
    pod: LivingPod,
    sandbox: PodSandbox,
    wanted: PodInterface,
    oddities: CallOddities = {},
  ): Promise<CniOutcome> {
    sandbox.attached.delete(wanted.name);
    const outcome = await this.#call("DEL", pod, sandbox, wanted, oddities);
    await this.dropDeviceInfo(sandbox, wanted);
    return outcome;
  }

  check(pod: LivingPod, wanted: PodInterface): Promise<CniOutcome> {
    const prevResult = pod.sandbox.attached.get(wanted.name);
    return this.#call("CHECK", pod, pod.sandbox, wanted, {}, { prevResult });
  }

  /** GC of one network, with all attachments that the runtime believes in. */
  collect(network: NetworkVariant): Promise<CniOutcome> {
    const valid = this.pods.flatMap(({ sandbox }) =>
      [...sandbox.attached.keys()].map((ifname) => ({ containerID: sandbox.containerId, ifname })),
    );
    return callCni({
      env: { ...this.#environment(), CNI_COMMAND: "GC", CNI_PATH: IPAM_PLUGINS },
      stdin: JSON.stringify({ ...this.#config(network), "cni.dev/valid-attachments": valid }),
    });
  }

  /** What Multus removes when it gives an attachment up. */
  dropDeviceInfo(sandbox: PodSandbox, wanted: PodInterface): Promise<void> {
    return rm(this.#deviceInfoFile(this.#delegate(wanted), sandbox), { force: true });
  }

  #call(
    verb: "ADD" | "DEL" | "CHECK",
    pod: LivingPod,
    sandbox: PodSandbox,
    wanted: PodInterface,
    { killAfterMs, freeze, stdin, withoutNetns }: CallOddities,
    keys: { readonly prevResult?: unknown } = {},
  ): Promise<CniOutcome> {
    const delegate = this.#delegate(wanted);
    const [plugin] = delegate.plugins;
    if (plugin === undefined) throw new Error("a delegate without a plugin");
    const deviceInfoFile = this.#deviceInfoFile(delegate, sandbox);
    const { prevResult } = keys;
    const env = pluginEnvironment({
      verb: verb === "DEL" ? "DEL" : "ADD",
      sandbox: {
        pod: { namespace: "tests", name: pod.name, uid: pod.uid },
        containerId: sandbox.containerId,
        netns: withoutNetns === true ? "" : this.#netns,
      },
      delegate,
      cniPath: IPAM_PLUGINS,
    });
    return callCni({
      env: { ...this.#environment(), ...env, CNI_COMMAND: verb },
      stdin: stdin ?? JSON.stringify(pluginStdin({ delegate, plugin, deviceInfoFile, prevResult })),
      ...(killAfterMs === undefined ? {} : { killAfterMs }),
      ...(freeze === undefined ? {} : { freeze }),
    });
  }

  #environment(): Record<string, string> {
    return { PATH: "/usr/bin:/bin", KUBE_VHOSTUSER_CNI_SOCKET: this.node.cniSocket };
  }

  #delegate({ name, device, network }: PodInterface): Delegate {
    const definition = { namespace: "tests", name: `vhostuser-${network.name}`, resourceName: SOCKETS };
    return toDelegate({ ...definition, interface: name, config: this.#config(network) }, 1, device);
  }

  #config(network: NetworkVariant): Record<string, unknown> {
    const capabilities = { deviceID: true, CNIDeviceInfoFile: true };
    // Debian's host-local knows no later version.
    const cniVersion = network.addressed === true ? "1.0.0" : "1.1.0";
    return { name: network.name, type: PLUGIN_TYPE, cniVersion, ...this.#keys(network), capabilities };
  }

  /** What a network, or a DeviceClass, says of a port. */
  #keys({ keys, addressed }: NetworkVariant): Readonly<Record<string, unknown>> {
    const ranges = [[{ subnet: "10.9.0.0/20" }]];
    const ipam = { type: "host-local", dataDir: this.leaseDirectory, ranges };
    return addressed === true ? { ...keys, ipam } : keys;
  }

  #deviceInfoFile(delegate: Delegate, sandbox: PodSandbox): string {
    return cniDeviceInfoFile(join(this.node.deviceInfoDirectory, "cni"), delegate, sandbox.containerId);
  }
}

/** A sandbox that nothing was added to. */
export function newSandbox(): PodSandbox {
  return { containerId: randomBytes(32).toString("hex"), attached: new Map() };
}
