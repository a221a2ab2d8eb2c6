import { type Dirent, fchmodSync, fchownSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemCode } from "../../failure/failure.ts";
import { SOCKET_FILE } from "../directory/layout.ts";
import type { HeldDirectory } from "./held-directory.ts";

/** Attempts between two turns of the event loop, a few milliseconds: Allocate and ADD are served meanwhile. */
const SLICE = 250;
/** A tree that still grows after so many is left for the next look. */
const ATTEMPTS_MAX = 500_000;

/** The socket: who serves it or is connected to it goes on. */
function isTheSocket(entry: Dirent): boolean {
  return entry.name === SOCKET_FILE && entry.isSocket();
}

/**
 * Removes everything from a directory that a pod has filled but what is kept. Sub-directories are taken from the pod
 * before they are emptied and moved up to be emptied one by one, so that a tree of any depth takes two descriptors; no
 * link is followed.
 * @returns the number of entries removed
 */
export async function emptyHoard(
  top: HeldDirectory,
  isKept: (entry: Dirent) => boolean = isTheSocket,
): Promise<number> {
  let removed = 0;
  let attempts = 0;
  let names = 0;
  // A round that gets nowhere, because what is left cannot be removed, is the last one.
  let hasProgressed = true;
  const goesAway = (remove: () => void) => {
    const isGone = tryRemove(remove);
    hasProgressed ||= isGone;
    return isGone;
  };
  while (hasProgressed && attempts < ATTEMPTS_MAX) {
    hasProgressed = false;
    for (const entry of top.entries(512)) {
      if (++attempts % SLICE === 0) await nextTurn();
      // Asked after the pause, in which it may have become one to keep.
      if (isKept(entry)) continue;
      const path = top.entry(entry.name);
      // An error costs ten times what a removal does: what it was is tried first, and what it has become next time.
      if (goesAway(() => (entry.isDirectory() ? rmdirSync(path) : unlinkSync(path)))) {
        removed += 1;
        continue;
      }
      using child = top.openEntry(entry.name);
      if (child === undefined) continue;
      fchownSync(child.fd, 0, 0);
      fchmodSync(child.fd, 0o700);
      for (const below of child.entries(512)) {
        const from = child.entry(below.name);
        if (++attempts % SLICE === 0) await nextTurn();
        if (below.isDirectory()) goesAway(() => renameSync(from, top.entry(`.hoard-${names++}`)));
        else if (goesAway(() => unlinkSync(from))) removed += 1;
      }
      if (!isKept(entry) && goesAway(() => rmdirSync(path))) removed += 1;
    }
  }
  return removed;
}

/** False when something else stands there than what was expected; the next round sees what. */
function tryRemove(remove: () => void): boolean {
  try {
    remove();
    return true;
  } catch (error) {
    const code = systemCode(error) ?? "";
    if (code === "ENOENT") return true;
    if (["EISDIR", "EPERM", "ENOTEMPTY", "EEXIST", "ENOTDIR"].includes(code)) return false;
    throw error;
  }
}
