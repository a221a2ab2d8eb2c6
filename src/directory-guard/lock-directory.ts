import { fchmodSync, fchownSync } from "node:fs";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { isLocked, lockedMode } from "../socket-directory/locked-directory.ts";
import type { HeldDirectory } from "./held-directory.ts";

/** Owner, group and mode to give back when a directory is opened again. */
export interface Lock {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

type Held = Pick<HeldDirectory, "fd" | "status">;

/**
 * Takes a directory from its pod: the socket in it serves on, but nobody adds to it. All or nothing.
 * @param wanted what the records say; without it the directory is given back as it was found
 */
export function lockDirectory(directory: Held, wanted?: DirectoryOwnership): Lock {
  const { uid, gid, mode } = directory.status();
  const found = { uid, gid, mode: mode & 0o7777 };
  // A daemon that was killed half-way through may have left it as root's, and a pod may have changed its mode.
  const lock = wanted === undefined ? found : lockFor(wanted);
  try {
    fchownSync(directory.fd, 0, lock.gid);
    fchmodSync(directory.fd, lockedMode(lock.mode));
  } catch (error) {
    unlockDirectory(directory, lock);
    throw error;
  }
  return lock;
}

/** Gives it back. */
export function unlockDirectory(directory: Held, lock: Lock): void {
  fchownSync(directory.fd, lock.uid, lock.gid);
  fchmodSync(directory.fd, lock.mode);
}

/** What a killed daemon took and cannot give back; undefined when a directory is not locked. */
export function lockLeftBehind(directory: Held, wanted: DirectoryOwnership | undefined): Lock | undefined {
  return wanted === undefined || !isLocked(directory.status(), wanted) ? undefined : lockFor(wanted);
}

function lockFor({ owner, group, mode }: DirectoryOwnership): Lock {
  return { uid: owner, gid: group, mode };
}
