import { chmodSync, closeSync, fstatSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { SOCKET_FILE } from "./layout.ts";
import { type OpenDirectory, openInode } from "./open-directory.ts";

/** Permissions of the group to read and write. */
const GROUP_ACCESS = 0o060;

/**
 * Lets a directory's group connect to the socket in it, where the directory's mode lets the group write: connect(2) needs
 * write permission, which the usual umask of 022 takes off. Only a socket of that group is changed, by its inode. Nothing
 * connects: QEMU accepts one client, and that is the switch.
 * @returns whether the mode was changed
 */
export function giveSocketToGroup(directory: OpenDirectory): boolean {
  const { gid, mode } = directory.status();
  const wanted = mode & GROUP_ACCESS;
  const fd = openInode(directory.entry(SOCKET_FILE));
  if (fd === undefined) return false;
  try {
    const socket = fstatSync(fd);
    if (!socket.isSocket() || socket.gid !== gid || (socket.mode & wanted) === wanted) return false;
    // fchmod(2) refuses a descriptor of this kind, its magic link leads to the same inode.
    chmodSync(`/proc/self/fd/${fd}`, (socket.mode & 0o7777) | wanted);
    return true;
  } finally {
    closeSync(fd);
  }
}

/**
 * Whether the socket in a directory seems closed to its group. Only a hint where to look: a pod's root can plant a link
 * on the path, which leads to nothing that is changed.
 * @param directory its path in latin1, one character for each byte
 */
export function isSocketClosed(directory: string): boolean {
  try {
    const status = lstatSync(Buffer.from(join(directory, SOCKET_FILE), "latin1"), { throwIfNoEntry: false });
    return status?.isSocket() === true && (status.mode & GROUP_ACCESS) !== GROUP_ACCESS;
  } catch {
    return true;
  }
}
