import { type AllocationContent, newAllocation } from "../../../src/address-objects/address-allocation.ts";
import { type BlockContent, newBlock } from "../../../src/address-objects/address-block.ts";
import { IPAM_API_VERSION } from "../../../src/address-objects/resources.ts";
import { parseAddress, parsePrefix } from "../../../src/addresses/address.ts";
import type { FakeApiServer } from "../api-server/fake-api-server.ts";
import type { Json, ObjectStore, Stored } from "../api-server/object-store.ts";

/** A pod of a stand-in cluster. */
export interface StandInPod {
  readonly node: string;
  /** Default `tenant`. */
  readonly namespace?: string;
  readonly hostNetwork?: boolean;
}

/** Nodes, pods and objects of IPAM on a stand-in's store, as their writers would have made them. */
export class IpamCluster {
  readonly #store: ObjectStore;

  constructor({ store }: Pick<FakeApiServer, "store">) {
    this.#store = store;
  }

  space(name = "default", blockPrefixes: Json = { ipv4: 28, ipv6: 122 }): Stored {
    return this.#create("addressspaces", "AddressSpace", name, { blockPrefixes });
  }

  /** @param more of the spec beside the subnets */
  pool(name: string, cidrs: readonly string[], more: Json = {}): Stored {
    return this.#create("addresspools", "AddressPool", name, {
      subnets: cidrs.map((cidr) => ({ cidr })),
      ...more,
    });
  }

  /** A block of a node, which exists. */
  block(cidr: string, node: string, used?: number): string {
    const { uid } = this.#store.get("nodes", node).metadata;
    return this.blockOf(cidr, { kind: "Node", name: node, uid, journal: "j" }, used);
  }

  blockOf(cidr: string, owner: BlockContent["owner"], used?: number): string {
    const prefix = parsePrefix(cidr);
    if (prefix === undefined) throw new Error(`${cidr} is not a network`);
    const block = newBlock({ space: "default", prefix, owner, state: "Bound", pool: undefined });
    const { name } = this.#store.create("addressblocks", block).metadata;
    if (used !== undefined) this.#store.merge("addressblocks", name, { status: { used } }, "status");
    return name;
  }

  /** An address of a pod, which exists, in a shared block. */
  allocation(
    text: string,
    pod: Stored | undefined,
    more: Partial<Pick<AllocationContent, "node" | "key">> = {},
  ): string {
    const address = parseAddress(text);
    if (address === undefined) throw new Error(`${text} is not an address`);
    const interfaceOf = { network: "net", interface: "net1", container: "c" };
    const owner = pod && { kind: "Pod", ...identityOf(pod), ...interfaceOf };
    const common = { space: "default", pool: "blue", node: undefined, key: undefined };
    const object = newAllocation({ ...common, ...more, address, owner });
    return this.#store.create("addressallocations", object).metadata.name;
  }

  node(name: string): Stored {
    return this.#store.create("nodes", { metadata: { name }, spec: {} });
  }

  pod(name: string, { node, namespace = "tenant", hostNetwork = false }: StandInPod): Stored {
    return this.#store.create(`${namespace}/pods`, {
      metadata: { name, namespace },
      spec: { nodeName: node, hostNetwork },
    });
  }

  remove(collection: string, name: string): void {
    this.#store.remove(collection, name, {});
  }

  /** Says that a node's machine is off, or takes that back. */
  taint(name: string, isOutOfService: boolean): void {
    const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
    this.#store.merge("nodes", name, { spec: { taints: isOutOfService ? [taint] : [] } });
  }

  /** Name and state of each block. */
  get blocks(): readonly string[] {
    return this.#store
      .all("addressblocks")
      .map(({ metadata: { name }, spec }) => `${name} ${(spec as Json)["state"]}`);
  }

  get allocations(): readonly string[] {
    return this.#store.all("addressallocations").map(({ metadata: { name } }) => name);
  }

  #create(collection: string, kind: string, name: string, spec: Json): Stored {
    const object = { apiVersion: IPAM_API_VERSION, kind, metadata: { name, generation: 1 }, spec };
    return this.#store.create(collection, object);
  }
}

function identityOf({ metadata: { namespace, name, uid } }: Stored) {
  return { namespace: String(namespace), name, uid };
}
