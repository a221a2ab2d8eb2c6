import type { Dirent } from "node:fs";
import type { HeldDirectory } from "./held-directory.ts";

/**
 * Entries that a pod may have in one of its directories, those in sub-directories included. It needs one, the socket;
 * beyond this it hoards, and what it hoards others lack, for the root's inodes are one stock.
 */
export const ENTRIES_MAX = 256;
/** The same for a pod that has hoarded before. */
export const ENTRIES_MAX_AGAIN = 16;

/** What lies in a pod's directory, seen with bounded effort. */
export interface Inspection {
  /** Names of the sockets directly in it. */
  readonly sockets: readonly string[];
  /** Whether there is more than the limit. */
  readonly isHoard: boolean;
  /** Whether it has sub-directories; what happens in those no watch on it reports. */
  readonly isDeep: boolean;
}

/** Looks at no more than `limit` entries, whatever a pod has made. */
export function inspectDirectory(directory: HeldDirectory, limit = ENTRIES_MAX): Inspection {
  const sockets: string[] = [];
  const deeper: string[] = [];
  const left = { entries: limit };
  for (const entry of entriesOf(directory, left)) {
    if (entry.isSocket()) sockets.push(entry.name);
    if (entry.isDirectory()) deeper.push(entry.name);
  }
  for (const name of deeper) countBelow(directory, name, left);
  return { sockets, isHoard: left.entries < 0, isDeep: deeper.length > 0 };
}

/** Every directory costs at least one entry, so the depth, and with it the descriptors, is bounded as the number is. */
function countBelow(parent: HeldDirectory, name: string, left: { entries: number }): void {
  if (left.entries < 0) return;
  using directory = parent.openEntry(name);
  if (directory === undefined) return;
  const deeper: string[] = [];
  for (const entry of entriesOf(directory, left)) if (entry.isDirectory()) deeper.push(entry.name);
  for (const below of deeper) countBelow(directory, below, left);
}

function* entriesOf(directory: HeldDirectory, left: { entries: number }): Generator<Dirent> {
  for (const entry of directory.entries()) {
    left.entries -= 1;
    if (left.entries < 0) return;
    yield entry;
  }
}
