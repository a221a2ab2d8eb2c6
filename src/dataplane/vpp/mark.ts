import { hash } from "node:crypto";
import type { PortOwner } from "../port.ts";

/** First part of every mark; the number is its form. */
const OWNER = "kvu1";
const MARK = new RegExp(`^${OWNER}:([0-9a-f]{8}):([0-9a-f]{12}):([0-9a-f]{8}):([^:]{1,15})$`);

/**
 * Whose port an interface is, from its tag. A tag has 63 characters, an owner's details up to some hundreds: it holds
 * digests, enough to know what is ours and to find the owner among those that our records name.
 */
export interface Mark {
  /** Digest of the node's name. */
  readonly node: string;
  /** Digest of allocation and interface: who may change the port. */
  readonly attachment: string;
  /** Digest of the rest of the owner; not of its sandbox, so that a new one of the same pod finds nothing to change. */
  readonly details: string;
  /** The port's name; VPP itself names interfaces by number. */
  readonly name: string;
}

/** The mark on a port. */
export function markOf(name: string, owner: PortOwner): Mark {
  return {
    node: nodeDigest(owner.node),
    attachment: attachmentDigest(owner),
    details: detailsDigest(owner),
    name,
  };
}

/** The mark as an interface's tag: 53 characters at most. */
export function printMark({ node, attachment, details, name }: Mark): string {
  return [OWNER, node, attachment, details, name].join(":");
}

/** The mark that a tag is; undefined for any other tag. */
export function parseMark(tag: string): Mark | undefined {
  const parts = MARK.exec(tag);
  if (parts === null) return undefined;
  const [, node = "", attachment = "", details = "", name = ""] = parts;
  return { node, attachment, details, name };
}

/** Whether a mark is of this node. */
export function isOfNode(mark: Pick<Mark, "node"> | undefined, node: string): boolean {
  return mark?.node === nodeDigest(node);
}

/** Whether a mark is that of the same interface of the same allocation. */
export function isSameAttachment(mark: Mark | undefined, owner: PortOwner): boolean {
  return isOfNode(mark, owner.node) && mark?.attachment === attachmentDigest(owner);
}

/** Digest of what of an owner may change, as in marks. */
export function detailsDigest({ podNamespace, podName, podUid, network, mac }: PortOwner): string {
  return digest([podNamespace, podName, podUid, network, mac], 8);
}

function attachmentDigest({ allocationId, interfaceName }: PortOwner): string {
  return digest([allocationId, interfaceName], 12);
}

/** The last one: nearly all are of the daemon's own node, which each listing asks for each port. */
let lastNode: { readonly name: string; readonly digest: string } | undefined;

/** Digest of a node's name, as in marks. */
export function nodeDigest(node: string): string {
  if (lastNode?.name !== node) lastNode = { name: node, digest: digest([node], 8) };
  return lastNode.digest;
}

function digest(parts: readonly string[], length: number): string {
  return hash("sha256", parts.join("\0")).slice(0, length);
}
