import { fchmodSync, fchownSync } from "node:fs";
import type { DirectoryOwnership } from "../../names/directory-ownership.ts";
import { isLocked, lockedMode } from "../directory/locked-directory.ts";
import type { HeldDirectory } from "./held-directory.ts";

/** Owner, group and mode to give back when a directory is opened again. */
export interface Lock {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
  /** Inode of the directory: somebody may remove it and make another of its name. A tmpfs gives no number out twice. */
  readonly ino: number;
}

type Held = Pick<HeldDirectory, "fd" | "status">;

/**
 * Takes a directory from its pod: the socket in it serves on, but nobody adds to it. All or nothing.
 * @param wanted what the records say; without it the directory is given back as it was found
 */
export function lockDirectory(directory: Held, wanted?: DirectoryOwnership): Lock {
  const { uid, gid, mode, ino } = directory.status();
  const found = { uid, gid, mode: mode & 0o7777, ino };
  // A daemon that was killed half-way through may have left it as root's, and a pod may have changed its mode.
  const lock = wanted === undefined ? found : lockFor(wanted, ino);
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
  const status = directory.status();
  return wanted === undefined || !isLocked(status, wanted) ? undefined : lockFor(wanted, status.ino);
}

/** Whether it is this directory that was taken, and not one that was made in its place. */
export function isLockOf({ ino }: Lock, directory: Held): boolean {
  return ino === directory.status().ino;
}

function lockFor({ owner, group, mode }: DirectoryOwnership, ino: number): Lock {
  return { uid: owner, gid: group, mode, ino };
}
