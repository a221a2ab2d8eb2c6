import { stat } from "node:fs/promises";
import { Failure, systemCode } from "../../failure/failure.ts";

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

/** @throws Failure cni-directory-unfit where the path is no directory */
export async function refuseOtherThanDirectory(directory: string): Promise<void> {
  try {
    if ((await stat(directory)).isDirectory()) return;
  } catch (error) {
    throw directoryFailure(error, directory);
  }
  throw new Failure({
    code: "cni-directory-unfit",
    what: "this is no directory",
    where: directory,
    fix: "mount the node's directory of CNI executables there",
  });
}

/** What the system refused, with its cure; a Failure as it is. */
export function directoryFailure(error: unknown, where: string): unknown {
  const code = systemCode(error);
  const fix = code === undefined ? undefined : CURES[code];
  if (error instanceof Failure || code === undefined || fix === undefined) return error;
  const what = `the CNI executable cannot be put there or taken away: ${code}`;
  return new Failure({ code: "cni-directory-unfit", what, where, fix, cause: error });
}
