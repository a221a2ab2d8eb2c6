import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { isLocked } from "../socket-directory/locked-directory.ts";
import type { Lock } from "./empty-hoard.ts";
import type { HeldDirectory } from "./held-directory.ts";
import type { Place } from "./place.ts";

/** A directory is given back after this; doubled each time up to the longest. */
const FIRST_LOCK_MS = 5_000;
const LONGEST_LOCK_MS = 600_000;

/** Counts an offence. @returns milliseconds for which the place is locked */
export function nextLockMs(place: Place, firstLockMs = FIRST_LOCK_MS): number {
  const ms = firstLockMs * 2 ** place.offences;
  place.offences += 1;
  return Math.min(LONGEST_LOCK_MS, ms);
}

/** What a killed daemon took and cannot give back; undefined when a directory is not locked. */
export function lockLeftBehind(
  directory: HeldDirectory,
  wanted: DirectoryOwnership | undefined,
): Lock | undefined {
  if (wanted === undefined || !isLocked(directory.status(), wanted)) return undefined;
  return { uid: wanted.owner, gid: wanted.group, mode: wanted.mode };
}
