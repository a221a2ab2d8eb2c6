import type { DirectoryOwnership } from "../../names/directory-ownership.ts";

/** The directory above a pod's own: root's, so that the pod's user can neither add nor swap anything in it. */
export const ALLOCATION_OWNERSHIP: DirectoryOwnership = { owner: 0, group: 0, mode: 0o755 };

/** What an allocation's directory must hold. */
export interface SocketDirectories {
  readonly root: string;
  readonly allocationId: string;
  /** Device ids and interface names; each gets a directory. */
  readonly names: readonly string[];
  readonly ownership: DirectoryOwnership;
}

/** What lstat(2) or fstat(2) tells. */
export interface DirectoryStatus {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** Whether owner, group and mode are these; the label is another matter. */
export function isAsWanted({ uid, gid, mode }: DirectoryStatus, wanted: DirectoryOwnership): boolean {
  return uid === wanted.owner && gid === wanted.group && (mode & 0o7777) === wanted.mode;
}
