import { IPAM_API_VERSION } from "../../src/address-objects/resources.ts";
import { claimName } from "../../src/claims/claim-name.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { ClaimCluster } from "../stand-in/ipam/claim-cluster.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { podInterfaceName } from "../stand-in/virt-launcher/network-info.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import type { ClusterNode } from "./cluster-node.ts";
import { smallVmi } from "./example-vm.ts";
import { endVm } from "./vm-life.ts";
import type { VmPod, VmPodOptions } from "./vm-pod.ts";

/** Of the VM's one interface on the claim's network. */
const NETWORK = "net1";

/**
 * Makes a network with claims, port security and DHCP, and its pool of 32 addresses.
 * @param example another network of the pool's switch; @param subnet a /24 by its first three bytes, such as `10.2.0`
 * @param keys of the configuration, beside those
 */
export function addClaimNetwork(
  api: FakeApiServer,
  example: SelectedNetwork,
  subnet: string,
  keys: Readonly<Record<string, unknown>> = {},
): SelectedNetwork {
  const name = "claimed";
  const { config, namespace } = example;
  const whole = {
    ...(typeof config === "string" ? JSON.parse(config) : config),
    ...{ name, allowPersistentIPs: true, portSecurity: true, mtu: 1400, ...keys },
    ipam: { type: "kube-vhostuser-ipam", pools: [name], routes: [{ dst: "10.222.0.0/16" }] },
  };
  const subnets = [{ cidr: `${subnet}.0/24`, gateway: `${subnet}.1`, ranges: [`${subnet}.32/27`] }];
  api.store.create("addresspools", {
    ...{ apiVersion: IPAM_API_VERSION, metadata: { name } },
    spec: { space: "default", mode: "NodeBlocks", cooldownSeconds: 60, subnets },
  });
  new ClaimCluster(api, namespace).attachment(name, whole);
  return { ...example, name, config: whole };
}

/** How to make the VM and its pods. */
export interface ClaimedVmOptions {
  /** Has the VM's objects and its claim. */
  readonly api: FakeApiServer;
  readonly name: string;
  /** By {@link addClaimNetwork}. */
  readonly network: SelectedNetwork;
  readonly newPod: (options: Pick<VmPodOptions, "node" | "name" | "vmi" | "network">) => VmPod;
}

/**
 * A VM whose addresses an IPAMClaim keeps. KubeVirt's objects and the launcher pods are at the API server, where our
 * controller makes the claim (`ipam.claims.manage`) and the node's agent finds it.
 */
export class ClaimedVm {
  readonly #options: ClaimedVmOptions;
  readonly #vmi: VirtualMachineInstance;
  readonly #objects: ClaimCluster;
  #pods = 0;
  #pod: VmPod | undefined;
  /** Of its first pod. */
  #identity: string | undefined;

  /** A VM that is stopped. */
  constructor(options: ClaimedVmOptions) {
    this.#options = options;
    this.#vmi = smallVmi({ name: options.name });
    this.#objects = new ClaimCluster(options.api, this.#vmi.metadata.namespace);
    this.#objects.vm(options.name, this.#networks);
  }

  /** What its claim has published, with prefix lengths; empty without a claim. */
  get ips(): readonly string[] {
    return this.#objects.status(claimName(this.#vmi.metadata.name, NETWORK)).ips;
  }

  /** The first of them, as the guest uses it. */
  get address(): string {
    return this.ips[0]?.split("/")[0] ?? "";
  }

  /**
   * Starts it, with a guest that has its address by DHCP then.
   * @param booted called before the guest asks
   * @returns its pod
   * @throws Error where the pod has other addresses or another MAC than the VM's first one
   */
  async start(node: ClusterNode, booted?: (pod: VmPod) => Promise<void>): Promise<VmPod> {
    const { namespace, name } = this.#vmi.metadata;
    this.#objects.vmi(name, this.#networks);
    const pod = await this.#addPod(node);
    await pod.define();
    await pod.boot();
    const { store } = this.#options.api;
    store.merge(`${namespace}/virtualmachineinstances`, name, { status: { phase: "Running" } });
    await booted?.(pod);
    await pod.guest.askByDhcp(pod.mac);
    this.#pod = pod;
    return pod;
  }

  /** Moves it live, and ends the pod that it leaves. @returns the other one @throws Error as {@link start} does */
  async migrate(node: ClusterNode): Promise<VmPod> {
    const source = this.#current();
    const target = await this.#addPod(node);
    await target.prepareAsTarget();
    await source.libvirt.migrate(source.domainName, target.libvirt);
    this.#pod = target;
    await this.#endPod(source);
    return target;
  }

  /** Stops it: the instance and its pod go. */
  async stop(): Promise<void> {
    const { namespace, name } = this.#vmi.metadata;
    await this.#endPod(this.#current());
    this.#options.api.store.remove(`${namespace}/virtualmachineinstances`, name, {});
  }

  /** Deletes it, when it is stopped; Kubernetes' garbage collector deletes the claim. */
  delete(): void {
    const { namespace, name } = this.#vmi.metadata;
    this.#options.api.store.remove(`${namespace}/virtualmachines`, name, {});
    this.#objects.collectGarbage();
  }

  get #networks(): Readonly<Record<string, string>> {
    return { [NETWORK]: this.#options.network.name };
  }

  /** A launcher pod as KubeVirt makes it, up to where its guest is started or comes in. */
  async #addPod(node: ClusterNode): Promise<VmPod> {
    const { name, network, newPod } = this.#options;
    this.#pods += 1;
    const pod = newPod({ node, name: `${name}-${this.#pods}`, vmi: this.#vmi, network });
    const element = { name: network.name, interface: podInterfaceName(this.#vmi, NETWORK) };
    const { metadata } = this.#objects.launcher(name, [element], pod.podName.slice(-5));
    await pod.allocate(metadata.uid);
    // As kubelet does: the claim and the pod are made at the same time.
    await waitUntilSucceeds(() => pod.attach(), { what: `${pod.podName} has its networks`, everyMs: 200 });
    const ips = pod.networkStatus[0]?.ips ?? [];
    const identity = `${pod.mac} ${ips.join()}`;
    this.#identity ??= identity;
    if (identity !== this.#identity) throw new Error(`${name} had ${this.#identity} and has ${identity}`);
    this.#objects.attached(pod.podName, [{ ...element, ips }]);
    await pod.launch();
    return pod;
  }

  async #endPod(pod: VmPod): Promise<void> {
    await endVm(pod);
    this.#options.api.store.remove(`${this.#vmi.metadata.namespace}/pods`, pod.podName, {});
  }

  #current(): VmPod {
    if (this.#pod === undefined) throw new Error(`${this.#options.name} does not run`);
    return this.#pod;
  }
}
