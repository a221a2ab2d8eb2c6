import type { Dirent } from "node:fs";
import { isAllocationId } from "../../names/allocation-id.ts";
import type { HeldDirectory } from "./held-directory.ts";
import { ENTRIES_MAX } from "./inspect-directory.ts";

/**
 * Entries of an allocation that the daemon did not make. The directory is root's: a pod whose user is root may write
 * there all the same, and what it makes counts against the inodes that all share.
 */
const STRAYS_MAX = 16;

/** Directories that are looked after one by one. */
export interface Children {
  readonly names: ReadonlySet<string>;
  /** Whether a pod put too much beside what the daemon made; then not all names were read. */
  readonly isHoard: boolean;
}

/** The allocations in the root, which is nobody's but the daemon's. */
export function listAllocations(root: HeldDirectory): Children {
  const names = new Set<string>();
  for (const entry of root.entries(512)) {
    if (entry.isDirectory() && isAllocationId(entry.name)) names.add(entry.name);
  }
  return { names, isHoard: false };
}

/** The directories of an allocation; with few strays they are looked after like those that the daemon made. */
export function listAllocation(allocation: HeldDirectory, isOurs: (entry: Dirent) => boolean): Children {
  const names = new Set<string>();
  let strays = 0;
  for (const entry of allocation.entries()) {
    if (!isOurs(entry) && ++strays > STRAYS_MAX) return { names, isHoard: true };
    if (entry.isDirectory()) names.add(entry.name);
  }
  return { names, isHoard: false };
}

/**
 * Tells the directories that the daemon made from what a pod's root put beside them.
 * @param known names by the records, asked for each directory since ADD may make another at any time; undefined without
 *   a record, as while Allocate is being answered
 * @param seen names that were there before, which count where there is no record
 */
export function oursAmong(
  known: () => ReadonlySet<string> | undefined,
  seen: ReadonlyMap<string, unknown>,
): (entry: Dirent) => boolean {
  let others = 0;
  return (entry) => {
    if (!entry.isDirectory()) return false;
    const names = known();
    if (names !== undefined) return names.has(entry.name);
    return seen.has(entry.name) || ++others <= ENTRIES_MAX;
  };
}
