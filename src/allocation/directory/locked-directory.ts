import type { DirectoryOwnership } from "../../names/directory-ownership.ts";

const WRITE = 0o222;

/** The mode of a directory that was taken from its pod: who serves or connects goes on, nobody adds anything. */
export function lockedMode(mode: number): number {
  return mode & 0o7777 & ~WRITE;
}

/**
 * Whether a directory was taken from its pod because the pod had filled it (`directory-guard`): root's, without
 * anybody's permission to write. Who mends owner and mode leaves it as it is.
 */
export function isLocked(
  { uid, mode }: { readonly uid: number; readonly mode: number },
  wanted: DirectoryOwnership,
): boolean {
  return uid === 0 && (mode & 0o7777) === lockedMode(wanted.mode);
}
