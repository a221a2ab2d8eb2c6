import { createHash } from "node:crypto";
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
    attachment: digest([owner.allocationId, owner.interfaceName], 12),
    details: digest([owner.podNamespace, owner.podName, owner.podUid, owner.network, owner.mac], 8),
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
  const asked = markOf("", owner);
  return mark?.node === asked.node && mark.attachment === asked.attachment;
}

/** Digest of a node's name, as in marks. */
export function nodeDigest(node: string): string {
  return digest([node], 8);
}

function digest(parts: readonly string[], length: number): string {
  return createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, length);
}
