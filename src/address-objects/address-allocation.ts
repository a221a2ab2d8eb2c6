import * as z from "zod";
import { type Address, formatAddress } from "../addresses/address.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { present } from "../names/present.ts";
import { addressField, headOf, invalidObject, type ObjectIdentity, parseObject } from "./fields.ts";
import { allocationName, keyHash, LABELS, nodeHash } from "./resources.ts";

/** The interface that has an address. */
export interface AllocationOwner {
  /** `Pod`; an address whose owner's kind is not known is in use. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Name of the CNI network. */
  readonly network: string;
  readonly interface: string;
  /** The sandbox, as CNI requests name it. */
  readonly container: string;
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
  interface: z.string(),
  container: z.string(),
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

/** The object that takes an address. */
export function newAllocation(allocation: AllocationContent): KubeObject {
  const { space, address } = allocation;
  const head = headOf("AddressAllocation", allocationName(space, address), labelsOf(allocation));
  return { ...head, spec: specOf(allocation) };
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
  const { [LABELS.node]: _, ...labels } = (read.metadata["labels"] ?? {}) as Record<string, string>;
  const { node: __, owner: ___, ...spec } = read["spec"] as Record<string, unknown>;
  const metadata = { ...read.metadata, labels: { ...labels, ...labelsOf(allocation) } };
  return { ...read, metadata, spec: { ...spec, ...specOf(allocation) } };
}

function labelsOf({ space, node, key }: AllocationContent): Record<string, string> {
  return present({
    [LABELS.space]: space,
    [LABELS.node]: node === undefined ? undefined : nodeHash(node),
    [LABELS.key]: key === undefined ? undefined : keyHash(key),
  }) as Record<string, string>;
}

function specOf({ space, pool, address, node, owner, key }: AllocationContent): object {
  return present({ space, pool, address: formatAddress(address), node, owner, key });
}

function ownerOf(owner: z.infer<typeof ownerSchema>): AllocationOwner {
  const { kind, namespace, name, uid, network, interface: own, container } = owner;
  return { kind, namespace, name, uid, network, interface: own, container };
}
