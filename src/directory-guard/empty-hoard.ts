import { fchmodSync, fchownSync, opendirSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemCode } from "../failure/failure.ts";
import { SOCKET_FILE } from "../socket-directory/layout.ts";
import { lockedMode } from "../socket-directory/locked-directory.ts";
import type { HeldDirectory } from "./held-directory.ts";

/** Owner, group and mode to give back when a directory is opened again. */
export interface Lock {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** Removals between two turns of the event loop, some milliseconds: Allocate and ADD are served meanwhile. */
const SLICE = 1000;
/** A tree that still grows after so many is left for the next look. */
const REMOVALS_MAX = 500_000;

/** Takes a directory from its pod: the socket in it serves on, but nobody adds to it. */
export function lockDirectory(directory: HeldDirectory): Lock {
  const { uid, gid, mode } = directory.status();
  fchownSync(directory.fd, 0, gid);
  fchmodSync(directory.fd, lockedMode(mode));
  return { uid, gid, mode: mode & 0o7777 };
}

/** Gives it back. */
export function unlockDirectory(directory: HeldDirectory, lock: Lock): void {
  fchownSync(directory.fd, lock.uid, lock.gid);
  fchmodSync(directory.fd, lock.mode);
}

/**
 * Removes everything from a locked directory but the socket. Sub-directories are taken from the pod before they are
 * emptied and moved up to be emptied one by one, so that a tree of any depth takes two descriptors; no link is
 * followed.
 * @returns the number of entries removed
 */
export async function emptyHoard(top: HeldDirectory): Promise<number> {
  let removed = 0;
  let moved = 0;
  let isEmpty = false;
  while (!isEmpty && removed < REMOVALS_MAX) {
    isEmpty = true;
    for (const entry of entriesOf(top)) {
      if (entry.name === SOCKET_FILE && entry.isSocket()) continue;
      isEmpty = false;
      if (++removed % SLICE === 0) await nextTurn();
      if (tryRemove(() => unlinkSync(top.entry(entry.name)))) continue;
      using child = top.openEntry(entry.name);
      if (child === undefined) continue;
      fchownSync(child.fd, 0, 0);
      fchmodSync(child.fd, 0o700);
      for (const { name } of entriesOf(child)) {
        if (++removed % SLICE === 0) await nextTurn();
        if (tryRemove(() => unlinkSync(child.entry(name)))) continue;
        tryRemove(() => renameSync(child.entry(name), top.entry(`.hoard-${moved++}`)));
      }
      tryRemove(() => rmdirSync(top.entry(entry.name)));
    }
  }
  return removed;
}

function* entriesOf(directory: HeldDirectory) {
  const listing = opendirSync(directory.self, { bufferSize: 512 });
  try {
    for (let entry = listing.readSync(); entry !== null; entry = listing.readSync()) yield entry;
  } finally {
    listing.closeSync();
  }
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
