import * as z from "zod";
import { formatPrefix, type Prefix } from "../addresses/address.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { present } from "../names/present.ts";
import { headOf, invalidObject, type ObjectIdentity, parseObject, prefixField } from "./fields.ts";
import { blockName, IPAM_API_VERSION, LABELS, nodeHash } from "./resources.ts";

/**
 * Who hands out a block's addresses: the agent of a node, which keeps account of them in the journal with this id on its
 * disk; all agents, each address by an AddressAllocation; or another IPAM.
 */
export type BlockOwner =
  | { readonly kind: "Node"; readonly name: string; readonly uid: string; readonly journal: string }
  | { readonly kind: "Shared" | "Foreign" };

/** A block of a space's grid that has an owner. */
export interface AddressBlock extends ObjectIdentity {
  readonly space: string;
  readonly prefix: Prefix;
  readonly owner: BlockOwner;
  /**
   * `Quarantined`: the node is gone, no address of the block is handed out, and it is deleted after the pool's cooldown.
   * `Releasing`: a shared block that is about to be deleted if no allocation is in it.
   */
  readonly state: "Bound" | "Quarantined" | "Releasing";
  /** The pool for which it was taken, for people: every pool of the space that has its addresses uses it. */
  readonly pool: string | undefined;
  /** Addresses handed out, as the agent last said. */
  readonly used: number | undefined;
}

/** What a block has before it exists. */
export type BlockContent = Pick<AddressBlock, "space" | "prefix" | "owner" | "state" | "pool">;

const schema = z.looseObject({
  spec: z.looseObject({
    space: z.string().min(1),
    cidr: prefixField,
    owner: z.discriminatedUnion("kind", [
      z.looseObject({
        kind: z.literal("Node"),
        name: z.string().min(1),
        uid: z.string().min(1),
        journal: z.string().min(1),
      }),
      z.looseObject({ kind: z.enum(["Shared", "Foreign"]) }),
    ]),
    state: z.enum(["Bound", "Quarantined", "Releasing"]),
    pool: z.string().optional(),
  }),
  status: z.looseObject({ used: z.int().min(0).optional() }).optional(),
});

/** @throws Failure `invalid-address-object` also where the name is not that of the block's addresses */
export function parseAddressBlock(object: unknown): AddressBlock {
  const { content, ...identity } = parseObject("AddressBlock", schema, object);
  const { space, cidr: prefix, state, pool } = content.spec;
  const name = blockName(space, prefix);
  if (identity.name !== name)
    throw invalidObject(
      "AddressBlock",
      identity.name,
      `the block of ${formatPrefix(prefix)} must be named ${name}`,
    );
  const owner: BlockOwner = ownerOf(content.spec.owner);
  return { ...identity, space, prefix, owner, state, pool, used: content.status?.used };
}

/** The object that takes a block. */
export function newBlock(block: BlockContent): KubeObject {
  const { space, owner } = block;
  const node = owner.kind === "Node" ? { [LABELS.node]: nodeHash(owner.name) } : {};
  const labels = { [LABELS.space]: space, [LABELS.owner]: owner.kind, ...node };
  return { ...headOf("AddressBlock", blockName(space, block.prefix), labels), spec: specOf(block) };
}

/**
 * The object that replaces a block as it was read, for a change of its owner's journal or of its state; the update
 * conflicts where the block has changed since.
 * @param read what the API server returned: its labels and the fields of a later release stay
 */
export function changedBlock(
  read: KubeObject,
  change: Partial<Pick<AddressBlock, "owner" | "state">>,
): KubeObject {
  const block = { ...parseAddressBlock(read), ...change };
  return { ...read, spec: { ...(read["spec"] as object), ...specOf(block) } };
}

/** The object for an update of a block's status. */
export function blockStatusUpdate({ name, resourceVersion }: ObjectIdentity, used: number): KubeObject {
  const metadata = { name, resourceVersion };
  return { apiVersion: IPAM_API_VERSION, kind: "AddressBlock", metadata, status: { used } };
}

function specOf({ space, prefix, owner, state, pool }: BlockContent): object {
  return present({ space, cidr: formatPrefix(prefix), owner, state, pool });
}

function ownerOf(owner: z.infer<typeof schema>["spec"]["owner"]): BlockOwner {
  if (owner.kind !== "Node") return { kind: owner.kind };
  return { kind: "Node", name: owner.name, uid: owner.uid, journal: owner.journal };
}
