import { createHash } from "node:crypto";
import * as z from "zod";
import { type Address, formatAddress } from "../addresses/address.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { present } from "../names/present.ts";
import { addressField, headOf, invalidObject, type ObjectIdentity, parseObject } from "./fields.ts";
import { allocationName, blockHash, keyHash, LABELS, nodeHash } from "./resources.ts";

/** Who has an address: an interface of a pod, or a claim. */
export interface AllocationOwner {
  /** `Pod`, `IPAMClaim` or `IPAddressClaim`; an address whose owner's kind is not known is in use. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Name of the CNI network. */
  readonly network: string;
  /** Of pods only. */
  readonly interface?: string | undefined;
  /** The sandbox, as CNI requests name it; of pods only. */
  readonly container?: string | undefined;
}

/** An address of a shared block that is handed out. */
export interface AddressAllocation extends ObjectIdentity {
  readonly space: string;
  readonly pool: string;
  readonly address: Address;
  /** Whose agent may change the allocation; absent together with the owner. */
  readonly node: string | undefined;
  /** Absent where a sticky address waits for its key. */
  readonly owner: AllocationOwner | undefined;
  /** What keeps a sticky address: an interface with the same key gets it again. */
  readonly key: string | undefined;
}

/** What an allocation has before it exists. */
export type AllocationContent = Pick<
  AddressAllocation,
  "space" | "pool" | "address" | "node" | "owner" | "key"
>;

const ownerSchema = z.looseObject({
  kind: z.string().min(1),
  namespace: z.string(),
  name: z.string().min(1),
  uid: z.string().min(1),
  network: z.string(),
  interface: z.string().optional(),
  container: z.string().optional(),
});

const schema = z.looseObject({
  spec: z.looseObject({
    space: z.string().min(1),
    pool: z.string(),
    address: addressField,
    node: z.string().min(1).optional(),
    owner: ownerSchema.optional(),
    key: z.string().min(1).optional(),
  }),
});

/** @throws Failure `invalid-address-object` also where the name is not that of the address */
export function parseAddressAllocation(object: unknown): AddressAllocation {
  const { content, ...identity } = parseObject("AddressAllocation", schema, object);
  const { space, pool, address, node, owner, key } = content.spec;
  const name = allocationName(space, address);
  if (identity.name !== name) {
    const what = `the allocation of ${formatAddress(address)} must be named ${name}`;
    throw invalidObject("AddressAllocation", identity.name, what);
  }
  return { ...identity, space, pool, address, node, owner: owner && ownerOf(owner), key };
}

/**
 * The object that takes an address.
 * @param block name of the shared block that it is in, by which its allocations are listed
 */
export function newAllocation(allocation: AllocationContent, block?: string): KubeObject {
  const { space, address } = allocation;
  const ofBlock = block === undefined ? {} : { [LABELS.block]: blockHash(block) };
  const labels = { ...labelsOf(allocation), ...ofBlock };
  return { ...headOf("AddressAllocation", allocationName(space, address), labels), spec: specOf(allocation) };
}

/** The same for the same owner: of a pod also the sandbox counts, because a late DEL is about an older one. */
export function ownerHash(owner: AllocationOwner): string {
  const { kind, namespace, name, uid, network, interface: own = null, container = null } = owner;
  const text = JSON.stringify([kind, namespace, name, uid, network, own, container]);
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/**
 * The object that replaces an allocation as it was read: it gives a sticky address an owner, or takes the owner away. The
 * update conflicts where the allocation has changed since.
 * @param read what the API server returned: the fields of a later release stay
 */
export function changedAllocation(
  read: KubeObject,
  { node, owner }: Pick<AddressAllocation, "node" | "owner">,
): KubeObject {
  const allocation = { ...parseAddressAllocation(read), node, owner };
  const {
    [LABELS.node]: _,
    [LABELS.ownerHash]: __,
    ...labels
  } = (read.metadata["labels"] ?? {}) as Record<string, string>;
  const { node: ___, owner: ____, ...spec } = read["spec"] as Record<string, unknown>;
  const metadata = { ...read.metadata, labels: { ...labels, ...labelsOf(allocation) } };
  return { ...read, metadata, spec: { ...spec, ...specOf(allocation) } };
}

function labelsOf({ space, node, owner, key }: AllocationContent): Record<string, string> {
  return present({
    [LABELS.space]: space,
    [LABELS.node]: node === undefined ? undefined : nodeHash(node),
    [LABELS.ownerHash]: owner && ownerHash(owner),
    [LABELS.key]: key === undefined ? undefined : keyHash(key),
  }) as Record<string, string>;
}

function specOf({ space, pool, address, node, owner, key }: AllocationContent): object {
  return present({ space, pool, address: formatAddress(address), node, owner, key });
}

function ownerOf(owner: z.infer<typeof ownerSchema>): AllocationOwner {
  const { kind, namespace, name, uid, network, interface: own, container } = owner;
  return present({ kind, namespace, name, uid, network, interface: own, container }) as AllocationOwner;
}
