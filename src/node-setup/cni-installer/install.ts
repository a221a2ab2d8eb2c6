import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";

import { Failure, systemCode } from "../../failure/failure.ts";

import { removeFile, removeTemporaries, replaceFile } from "../../files/replace-file.ts";
import {
  type Executable,
  isOwnExecutable,
  readOwnExecutable,
  readPlainFile,
  tryExecutable,
} from "./executable.ts";

/** All users may run it; it does nothing that the caller could not do. */
const MODE = 0o755;
/** Attempts when another installer removes our temporary file as a leftover. */
const TRIES = 5;

/** What to install and where. */
export interface Installation {
  readonly name: Executable;
  /** The executable as the image has it. */
  readonly source: string;
  /** The node's directory of CNI executables. */
  readonly directory: string;
  /** Default: ours. */
  readonly processor?: string;
}

/**
 * Puts the CNI executable into the node's directory: a call that runs it meanwhile gets the old file or the new one,
 * whole. What has its name is replaced, a link too, whose target is not changed: a network's `type` means ours, and
 * the daemon beside it is of this release, newer or older. What a killed installer left is removed.
 * @returns a sentence about what was done
 * @throws Failure cni-directory-unusable, part-missing
 */
export async function installExecutable(installation: Installation): Promise<string> {
  const { name, source, directory } = installation;
  const content = await readOwnExecutable(source, name, installation.processor);
  await refuseOtherThanDirectory(directory);
  const path = join(directory, name);
  for (let left = TRIES; ; left--) {
    try {
      const before = await readInPlace(path);
      await removeTemporaries(directory);
      if (typeof before === "object" && isSame(before, content)) return `${path} is there already`;
      await replaceFile(path, content, MODE, tryExecutable);
      return `${path} is installed (sha256 ${digestOf(content)})${insteadOf(before, name)}`;
    } catch (error) {
      if (systemCode(error) === "ENOENT" && left > 1) continue;
      throw directoryFailure(error, path);
    }
  }
}

/**
 * Removes the executable, of whichever release it is; what is not ours stays.
 * @returns a sentence about what was done
 * @throws Failure cni-directory-unusable where the directory cannot be changed
 */
export async function uninstallExecutable(directory: string, name: Executable): Promise<string> {
  const path = join(directory, name);
  try {
    await removeTemporaries(directory);
    const found = await readInPlace(path);
    if (found === undefined) return `${path} is not there`;
    if (found === "other" || !isOwnExecutable(found.content, name)) {
      return `${path} is not ours and stays`;
    }
    await removeFile(path);
    return `${path} is removed`;
  } catch (error) {
    throw directoryFailure(error, path);
  }
}

/** A file that may not be read can be replaced all the same: the installer is root without any capability. */
async function readInPlace(path: string): ReturnType<typeof readPlainFile> {
  try {
    return await readPlainFile(path);
  } catch (error) {
    if (systemCode(error) === "EACCES") return "other";
    throw error;
  }
}

function isSame(found: { content: Buffer; uid: number; mode: number }, content: Buffer): boolean {
  return found.content.equals(content) && found.mode === MODE && found.uid === process.geteuid?.();
}

function insteadOf(before: Awaited<ReturnType<typeof readPlainFile>>, name: Executable): string {
  if (before === undefined) return "";
  if (before === "other") return ", instead of something that was no plain file, or not to be read";
  const whose = isOwnExecutable(before.content, name) ? "another release's" : "a file that was not ours";
  return `, instead of ${whose} (sha256 ${digestOf(before.content)})`;
}

function digestOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 16);
}

const CURES: Readonly<Record<string, string>> = {
  ENOENT:
    "mount the node's directory of CNI executables into the container (hostPath of type DirectoryOrCreate)",
  ENOTDIR: "a part of the path is a file",
  EROFS: "mount it writable, or choose the directory that the node's container runtime is configured with",
  EACCES:
    "the container must run as root (runAsUser: 0); with SELinux in a domain that may write there (spc_t)",
  EPERM: "the file is immutable on the node (lsattr), or a security module forbids it",
  ENOSPC: "make room on the file system of the node's directory",
  EDQUOT: "make room on the file system of the node's directory",
  EISDIR: "a directory has the executable's name: see on the node what it is, and remove it",
};

/** @throws Failure cni-directory-unusable where the path is no directory */
async function refuseOtherThanDirectory(directory: string): Promise<void> {
  try {
    if ((await stat(directory)).isDirectory()) return;
  } catch (error) {
    throw directoryFailure(error, directory);
  }
  throw new Failure({
    code: "cni-directory-unusable",
    what: "this is not a directory",
    where: directory,
    fix: "mount the node's directory of CNI executables there",
  });
}

/** What the system refused, with its fix; a Failure unchanged. */
function directoryFailure(error: unknown, where: string): unknown {
  const code = systemCode(error);
  const fix = code === undefined ? undefined : CURES[code];
  if (error instanceof Failure || code === undefined || fix === undefined) return error;
  const what = `the CNI executable cannot be installed or removed: ${code}`;
  return new Failure({ code: "cni-directory-unusable", what, where, fix, cause: error });
}
