import { createHash } from "node:crypto";
import { type Address, formatAddress, type Prefix } from "../addresses/address.ts";
import type { Resource } from "../kube-api/client.ts";

export const IPAM_GROUP = "ipam.kube-vhostuser.io";
const VERSION = "v1alpha1";
export const IPAM_API_VERSION = `${IPAM_GROUP}/${VERSION}`;

export const ADDRESS_SPACES: Resource = { group: IPAM_GROUP, version: VERSION, plural: "addressspaces" };
export const ADDRESS_POOLS: Resource = { group: IPAM_GROUP, version: VERSION, plural: "addresspools" };
export const ADDRESS_BLOCKS: Resource = { group: IPAM_GROUP, version: VERSION, plural: "addressblocks" };
export const ADDRESS_ALLOCATIONS: Resource = {
  ...{ group: IPAM_GROUP, version: VERSION },
  plural: "addressallocations",
};

/** Pools of a namespace, for Cluster API: the controller makes an AddressPool of each. */
export const NAMESPACED_POOLS: Resource = {
  ...{ group: IPAM_GROUP, version: VERSION },
  plural: "namespacedaddresspools",
};

/** Of an AddressPool that stands for a NamespacedAddressPool: its namespace/name. */
export const NAMESPACED_ANNOTATION = `${IPAM_GROUP}/namespaced-pool`;

/** The same resource's `status`, which only that subresource changes. */
export function statusOf(resource: Resource): Resource {
  return { ...resource, subresource: "status" };
}

/** Keeps spaces and pools while blocks or allocations name them. */
export const IN_USE_FINALIZER = `${IPAM_GROUP}/in-use`;

/** The space that the chart creates. */
export const DEFAULT_SPACE = "default";

export const LABELS = {
  /** Name of the space; of blocks and allocations. */
  space: `${IPAM_GROUP}/space`,
  /** {@link nodeHash} of the node that owns a block, or whose pod has an allocation. */
  node: `${IPAM_GROUP}/node`,
  /** Kind of a block's owner: `Node`, `Shared` or `Foreign`. */
  owner: `${IPAM_GROUP}/owner`,
  /** {@link keyHash} of a sticky allocation's key. */
  key: `${IPAM_GROUP}/key`,
  /** {@link blockHash} of the block that an allocation's address is in. */
  block: `${IPAM_GROUP}/block`,
  /** Hash of an allocation's owner: `ownerHash` in address-allocation.ts. */
  ownerHash: `${IPAM_GROUP}/owner-hash`,
} as const;

/** Selector of the objects that have all these labels. */
export function selectorOf(labels: Partial<Record<keyof typeof LABELS, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${LABELS[name as keyof typeof LABELS]}=${value}`)
    .join(",");
}

/** A node's name may be longer than a label's value. */
export function nodeHash(nodeName: string): string {
  return createHash("sha256").update(nodeName).digest("hex").slice(0, 16);
}

/** A block's name may be longer than a label's value. */
export function blockHash(name: string): string {
  return createHash("sha256").update(name).digest("hex").slice(0, 32);
}

/** Keys may be of any length and have any characters. Two keys may have one hash: compare the keys. */
export function keyHash(key: string): string {
  return createHash("sha256").update(key).digest("hex").slice(0, 32);
}

/** Name of the block with these addresses: creating the object takes the block. */
export function blockName(space: string, { length, ...first }: Prefix): string {
  return `${space}.${nameOf(first)}.${length}`;
}

/** Name of the allocation of an address: creating the object takes the address. */
export function allocationName(space: string, address: Address): string {
  return `${space}.${nameOf(address)}`;
}

/** `10-0-0-1`, `fd00x40` for `fd00::40`: with `--` for `::` a name could end with a hyphen, which no name may. */
function nameOf(address: Address): string {
  return formatAddress(address).replace("::", "x").replaceAll(/[.:]/g, "-");
}
