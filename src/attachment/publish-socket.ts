import { chmodSync, closeSync, lchownSync, lstatSync, renameSync, type Stats } from "node:fs";
import { unlink } from "node:fs/promises";
import { SOCKET_FILE } from "../allocation/layout.ts";
import { closeInThread, type OpenDirectory, openDirectory, openInode } from "../allocation/open-directory.ts";
import { setSelinuxLabel } from "../allocation/selinux-label.ts";
import { Failure, systemCode } from "../failure/failure.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";

/** Where a pod expects the socket of an interface. */
export interface SocketPlace {
  readonly root: string;
  readonly allocationId: string;
  readonly interfaceName: string;
}

/** A socket where the switch creates it. */
export interface MadeSocket {
  /** No pod can write in it. */
  readonly directory: string;
  readonly file: string;
}

interface SwitchSocket extends SocketPlace, MadeSocket {
  readonly ownership: DirectoryOwnership;
}

/** Permissions of a socket: to connect is to write. */
const SOCKET_MODE = 0o666;

/**
 * Moves a socket that the switch has created to where the pod expects it, replacing what is there. Moved, not linked: a
 * killed switch could not create it again while its old file exists. Nothing in the pod's directory is followed.
 * @returns whether the pod has a socket now; it may have it from before, or have removed it
 * @throws Failure directory-unsafe, invalid-config, label-refused
 */
export async function publishSocket(socket: SwitchSocket, setLabel = setSelinuxLabel): Promise<boolean> {
  using made = openSwitchDirectory(socket.directory);
  using target = openInterface(socket);
  if (target === undefined) throw unsafe(`the directory of interface ${socket.interfaceName} is gone`);
  const to = target.entry(SOCKET_FILE);
  const from = made.entry(socket.file);
  const status = statusOf(from);
  if (status === undefined) return statusOf(to)?.isSocket() === true;
  if (!status.isSocket()) throw unsafe(`${socket.directory}/${socket.file} is not a socket`);
  const { owner, group, mode, selinuxLabel } = socket.ownership;
  lchownSync(from, owner, group);
  chmodSync(from, mode & SOCKET_MODE);
  // A move keeps the label, which is the switch's.
  if (selinuxLabel !== undefined) await labelSocket(from, selinuxLabel, setLabel);
  // Held, so that the rename does not free it: no pod could rename or remove anything meanwhile.
  const replaced = openInode(to);
  try {
    renameSync(from, to);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EXDEV") {
      throw new Failure({
        code: "invalid-config",
        what: "the switch creates its sockets on another mount than that of the pods' directories",
        where: `switchSockets: ${socket.directory}, root: ${socket.root}`,
        fix: "give the switch a directory below root as its vhost-sock-dir",
        cause: error,
      });
    }
    if (code === "EISDIR") throw unsafe(`${target.path}/${SOCKET_FILE} is a directory`, error);
    throw error;
  } finally {
    if (replaced !== undefined) await closeInThread(replaced);
  }
  return true;
}

async function labelSocket(path: Buffer, label: string, setLabel: typeof setSelinuxLabel): Promise<void> {
  const fd = openInode(path);
  if (fd === undefined) throw unsafe(`${path} was removed while it was labelled`);
  try {
    await setLabel([fd], label);
  } finally {
    closeSync(fd);
  }
}

/** Whether the switch, or a killed one before it, has left a socket where it creates them. */
export function isUnpublished({ directory, file }: MadeSocket): boolean {
  using made = openSwitchDirectory(directory);
  return statusOf(made.entry(file)) !== undefined;
}

/** Removes a socket that the switch could not remove when it was killed, and for which it makes no new one. */
export async function removeStaleSocket({ directory, file }: MadeSocket): Promise<void> {
  using made = openSwitchDirectory(directory);
  await removeFile(made.entry(file));
}

/** Whether there is a socket where the pod expects it. */
export function hasSocket(socket: SocketPlace): boolean {
  using target = openInterface(socket);
  return target !== undefined && statusOf(target.entry(SOCKET_FILE))?.isSocket() === true;
}

/** Removes the socket of a port that is gone from the pod's directory. */
export async function withdrawSocket(socket: SocketPlace): Promise<void> {
  using target = openInterface(socket);
  const path = target?.entry(SOCKET_FILE);
  if (path !== undefined && statusOf(path)?.isSocket() === true) await removeFile(path);
}

/** Undefined when it is gone. */
function openInterface({ root, allocationId, interfaceName }: SocketPlace): OpenDirectory | undefined {
  using top = openDirectory(root);
  using allocation = top.openEntry(allocationId);
  return allocation?.openEntry(interfaceName);
}

function openSwitchDirectory(directory: string): OpenDirectory {
  try {
    return openDirectory(directory);
  } catch (cause) {
    throw new Failure({
      code: "invalid-config",
      what: `the directory where the switch creates its sockets cannot be opened: ${systemCode(cause)}`,
      where: `switchSockets: ${directory}`,
      cause,
    });
  }
}

/** In a thread: a pod may have put a file in the socket's place whose attributes take seconds to free. */
async function removeFile(path: Buffer): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
}

function statusOf(path: Buffer): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function unsafe(what: string, cause?: unknown): Failure {
  return new Failure({ code: "directory-unsafe", what, cause });
}
