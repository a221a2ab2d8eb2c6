import { chmodSync, closeSync, fstatSync } from "node:fs";
import { type HeldDirectory, openInode } from "./held-directory.ts";

/** Permissions of the group to read and write. */
const GROUP_ACCESS = 0o060;

/**
 * Lets a directory's group connect to a socket in it, where the directory's mode lets the group write: connect(2)
 * needs write permission, and a program with the usual umask of 022 makes a socket of mode 0755. Only a socket and
 * only of that group is changed, by its inode: a link, or what is put in its place meanwhile, is not. Nothing
 * connects: QEMU takes one client, and that is the switch.
 * @returns whether the mode was changed
 */
export function mendSocket(directory: HeldDirectory, name: string): boolean {
  const { gid, mode } = directory.status();
  const wanted = mode & GROUP_ACCESS;
  const fd = openInode(directory, name);
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
