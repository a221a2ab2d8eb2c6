import { IPAM_CLAIMS, VM_LABEL } from "../../../src/claims/resources.ts";
import type { FakeApiServer } from "../api-server/fake-api-server.ts";
import type { Json, ObjectStore, Stored } from "../api-server/object-store.ts";

const CLAIM_KEYS = { apiVersion: `${IPAM_CLAIMS.group}/${IPAM_CLAIMS.version}`, kind: "IPAMClaim" };
const NETWORKS = "k8s.v1.cni.cncf.io/networks";
const STATUS = "k8s.v1.cni.cncf.io/network-status";

/** A network of a pod, as Multus' annotations have it. */
export interface PodNetwork {
  /** Of the NetworkAttachmentDefinition. */
  readonly name: string;
  readonly interface: string;
  readonly claim?: string;
  /** What Multus says after ADD; undefined before. */
  readonly ips?: readonly string[];
}

/** Claims, networks and pods that use them, on a stand-in's store, as their writers would have made them. */
export class ClaimCluster {
  readonly #store: ObjectStore;
  /** Of what does not say otherwise. */
  readonly #namespace: string;

  constructor({ store }: Pick<FakeApiServer, "store">, namespace = "tenant") {
    this.#store = store;
    this.#namespace = namespace;
    store.withStatus.add("ipamclaims");
  }

  /** A network, whose name is not that of the object. @param config beside the usual */
  network(name: string, pools: readonly string[], config: Json = {}, namespace = this.#namespace): Stored {
    const ipam = { type: "kube-vhostuser-ipam", pools };
    const whole = {
      cniVersion: "1.1.0",
      name: `${name}-network`,
      type: "kube-vhostuser",
      allowPersistentIPs: true,
      ipam,
    };
    return this.attachment(name, { ...whole, ...config }, namespace);
  }

  attachment(name: string, config: Json, namespace = this.#namespace): Stored {
    return this.#store.create(`${namespace}/network-attachment-definitions`, {
      ...{
        apiVersion: "k8s.cni.cncf.io/v1",
        kind: "NetworkAttachmentDefinition",
        metadata: { name, namespace },
      },
      spec: { config: JSON.stringify(config) },
    });
  }

  /** As kubevirt/ipam-extensions makes it: without an interface. @param metadata beside the name */
  claim(name: string, network: string, metadata: Json = {}): Stored {
    const { namespace = this.#namespace } = metadata;
    return this.#store.create(`${namespace}/ipamclaims`, {
      ...{ ...CLAIM_KEYS, metadata: { namespace, ...metadata, name } },
      spec: { network, interface: "" },
    });
  }

  /** A claim that another program, or an earlier life, has published. */
  publish(name: string, ips: readonly string[], namespace = this.#namespace): void {
    this.#store.merge(`${namespace}/ipamclaims`, name, { status: { ips } }, "status");
  }

  status(
    name: string,
    namespace = this.#namespace,
  ): { readonly ips: readonly string[]; readonly reason: string | undefined } {
    const found = this.#store.find(`${namespace}/ipamclaims`, name)?.["status"] as
      | { readonly ips?: readonly string[]; readonly conditions?: readonly { readonly reason: string }[] }
      | undefined;
    return { ips: found?.ips ?? [], reason: found?.conditions?.[0]?.reason };
  }

  /** Whose address each allocation is. */
  get owners(): Readonly<Record<string, string>> {
    return Object.fromEntries(
      this.#store.all("addressallocations").flatMap(({ spec }) => {
        const { address, owner } = spec as {
          readonly address: string;
          readonly owner?: Readonly<Record<string, string>>;
        };
        return owner === undefined ? [] : [[address, `${owner["namespace"]}/${owner["name"]}`]];
      }),
    );
  }

  /** A VM that is stopped. @param networks names of NetworkAttachmentDefinitions by the network's name in the VM */
  vm(name: string, networks: Readonly<Record<string, string>>): Stored {
    const spec = vmiSpec(networks);
    const namespace = this.#namespace;
    return this.#store.create(`${namespace}/virtualmachines`, {
      metadata: { name, namespace },
      spec: { runStrategy: "Always", template: { metadata: {}, spec } },
    });
  }

  /** An instance, of the VM of its name where there is one. */
  vmi(name: string, networks: Readonly<Record<string, string>>, phase = "Scheduling"): Stored {
    const namespace = this.#namespace;
    const uid = this.#store.find(`${namespace}/virtualmachines`, name)?.metadata.uid;
    const ownerReferences =
      uid === undefined ? [] : [{ kind: "VirtualMachine", name, uid, controller: true }];
    return this.#store.create(`${namespace}/virtualmachineinstances`, {
      metadata: { name, namespace, ownerReferences },
      spec: vmiSpec(networks),
      status: { phase, activePods: {} },
    });
  }

  /** Claims with their network and the uid of their owner. */
  get all(): readonly string[] {
    return this.#store.all("ipamclaims").map(({ metadata, spec }) => {
      const [owner] = (metadata["ownerReferences"] ?? []) as readonly Readonly<Record<string, string>>[];
      return `${metadata.name} ${(spec as { network: string }).network} ${owner?.["kind"]} ${owner?.["uid"]}`;
    });
  }

  /** What the garbage collector does with claims whose owner is gone. */
  collectGarbage(): void {
    for (const { metadata } of this.#store.all("ipamclaims")) {
      const [owner] = (metadata["ownerReferences"] ?? []) as readonly Readonly<Record<string, string>>[];
      const uids = ["virtualmachines", "virtualmachineinstances"].flatMap((plural) =>
        this.#store.all(plural).map((one) => one.metadata.uid),
      );
      if (owner !== undefined && !uids.includes(owner["uid"] ?? ""))
        this.#store.remove(`${metadata["namespace"]}/ipamclaims`, metadata.name, {});
    }
  }

  /** A launcher pod of a VM. */
  launcher(
    vm: string,
    networks: readonly PodNetwork[],
    suffix = "aaaaa",
    namespace = this.#namespace,
  ): Stored {
    const name = `virt-launcher-${vm}-${suffix}`;
    const labels = { "kubevirt.io": "virt-launcher", [VM_LABEL]: vm };
    const elements = networks.map((one) => ({
      ...{ name: one.name, namespace, interface: one.interface },
      ...(one.claim === undefined ? {} : { "ipam-claim-reference": one.claim }),
    }));
    const annotations = { "kubevirt.io/domain": vm, [NETWORKS]: JSON.stringify(elements) };
    this.#store.create(`${namespace}/pods`, {
      metadata: { name, namespace, labels, annotations },
      spec: { nodeName: "n1" },
    });
    if (networks.some(({ ips }) => ips !== undefined)) this.attached(name, networks, namespace);
    return this.#store.get(`${namespace}/pods`, name);
  }

  /** Multus says what the pod has. */
  attached(pod: string, networks: readonly PodNetwork[], namespace = this.#namespace): void {
    const status = [
      { name: "cluster", interface: "eth0", ips: ["10.244.0.7"], default: true },
      ...networks.map(({ name, ips, interface: own }) => ({
        name: `${namespace}/${name}`,
        interface: own,
        ips,
      })),
    ];
    const annotations = { [STATUS]: JSON.stringify(status) };
    this.#store.merge(`${namespace}/pods`, pod, { metadata: { annotations } });
  }
}

function vmiSpec(networks: Readonly<Record<string, string>>): Json {
  const names = Object.keys(networks);
  return {
    networks: [
      { name: "default", pod: {} },
      ...names.map((name) => ({ name, multus: { networkName: networks[name] } })),
    ],
    domain: {
      devices: {
        interfaces: [
          { name: "default", masquerade: {} },
          ...names.map((name) => ({ name, binding: { name: "vhostuser" } })),
        ],
      },
    },
  };
}
