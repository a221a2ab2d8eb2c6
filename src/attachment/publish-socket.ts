import {
  chmodSync,
  closeSync,
  constants,
  lchownSync,
  lstatSync,
  openSync,
  renameSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { SOCKET_FILE } from "../allocation/layout.ts";
import { type OpenDirectory, openDirectory } from "../allocation/open-directory.ts";
import { setSelinuxLabel } from "../allocation/selinux-label.ts";
import { Failure, systemCode } from "../failure/failure.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";

/** Where a pod expects the socket of an interface. */
export interface SocketPlace {
  readonly root: string;
  readonly allocationId: string;
  readonly interfaceName: string;
}

/** A switch's socket and where the pod expects it. */
export interface SwitchSocket extends SocketPlace {
  /** Where the switch creates its sockets; no pod can write in it. */
  readonly directory: string;
  /** Its name there. */
  readonly file: string;
  readonly ownership: DirectoryOwnership;
}

/** O_PATH of Linux on x86-64 and arm64; Node does not name it. It opens a socket's inode without connecting. */
const O_PATH = 0o10000000;
/** Permissions of a socket: to connect is to write. */
const SOCKET_MODE = 0o666;

/**
 * Moves a socket that the switch has created to where the pod expects it, replacing what an earlier run of the switch
 * left there. Moved, not linked: a killed switch could not create it again while its old file exists. The pod owns the
 * directory, so nothing in it is followed or trusted; it cannot swap the directory itself.
 * @returns whether the pod has a socket now; it may have it from before, or have removed it
 * @throws Failure directory-unsafe, invalid-config, label-refused
 */
export async function publishSocket(
  socket: SwitchSocket,
  setLabel: typeof setSelinuxLabel = setSelinuxLabel,
): Promise<boolean> {
  using made = openSwitchDirectory(socket.directory);
  using target = openInterface(socket);
  const to = target.entry(SOCKET_FILE);
  const from = made.entry(socket.file);
  const status = lookAt(from);
  if (status === undefined) return lookAt(to)?.isSocket() === true;
  if (!status.isSocket()) throw unsafe(`${socket.directory}/${socket.file} is not a socket`);
  const { owner, group, mode, selinuxLabel } = socket.ownership;
  lchownSync(from, owner, group);
  chmodSync(from, mode & SOCKET_MODE);
  // A move keeps the label, which is the switch's.
  if (selinuxLabel !== undefined) await labelSocket(from, selinuxLabel, setLabel);
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
  }
  return true;
}

async function labelSocket(path: string, label: string, setLabel: typeof setSelinuxLabel): Promise<void> {
  const fd = openSync(path, O_PATH | constants.O_NOFOLLOW);
  try {
    await setLabel([fd], label);
  } finally {
    closeSync(fd);
  }
}

/** Whether the switch, or a killed one before it, has left a socket where it creates them. */
export function isUnpublished({ directory, file }: Pick<SwitchSocket, "directory" | "file">): boolean {
  using made = openSwitchDirectory(directory);
  return lookAt(made.entry(file)) !== undefined;
}

/** Removes a socket that the switch could not remove when it was killed, and for which it makes no new one. */
export function removeStaleSocket({ directory, file }: Pick<SwitchSocket, "directory" | "file">): void {
  using made = openSwitchDirectory(directory);
  removeFile(made.entry(file));
}

/** Whether there is a socket where the pod expects it. */
export function hasSocket(socket: SocketPlace): boolean {
  using target = openInterface(socket);
  return lookAt(target.entry(SOCKET_FILE))?.isSocket() === true;
}

/** Removes the socket of a port that is gone from the pod's directory. */
export function withdrawSocket(socket: SocketPlace): void {
  using root = openDirectory(socket.root);
  using allocation = root.openEntry(socket.allocationId);
  using target = allocation?.openEntry(socket.interfaceName);
  if (target === undefined) return;
  const path = target.entry(SOCKET_FILE);
  if (lookAt(path)?.isSocket() === true) removeFile(path);
}

function openInterface({ root, allocationId, interfaceName }: SocketPlace): OpenDirectory {
  using top = openDirectory(root);
  using allocation = top.openEntry(allocationId);
  const target = allocation?.openEntry(interfaceName);
  if (target === undefined) throw unsafe(`the directory of interface ${interfaceName} is gone`);
  return target;
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

function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}

function lookAt(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function unsafe(what: string, cause?: unknown): Failure {
  return new Failure({ code: "directory-unsafe", what, cause });
}
