import { lstatSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { ALLOCATION_OWNERSHIP, allocationDirectory, type SocketDirectories } from "./layout.ts";
import { nameBytes, type OpenDirectory, openDirectory } from "./open-directory.ts";
import { setSelinuxLabel } from "./selinux-label.ts";
import { setAside } from "./set-aside.ts";

/** Mode of a directory that is not finished; no pool has it. */
const UNFINISHED = 0o100;
/** A pod with root may put something else in a directory's place again and again. */
const ATTEMPTS = 3;

/**
 * Makes an allocation's directory and those in it, or repairs their owner, mode and label; what is in them stays. Something
 * else in the place of a directory is set aside, never followed. The work is bounded, whatever a pod does meanwhile.
 * @throws Failure `root-full`, `capability-missing`, `label-refused`, `directory-unsafe`
 */
export async function ensureSocketDirectories(
  wanted: SocketDirectories,
  setLabel = setSelinuxLabel,
): Promise<void> {
  using root = openDirectory(wanted.root);
  const { selinuxLabel } = wanted.ownership;
  const above = selinuxLabel === undefined ? ALLOCATION_OWNERSHIP : { ...ALLOCATION_OWNERSHIP, selinuxLabel };
  using allocation = await ensureDirectory(root, root, wanted.allocationId, above, setLabel);
  for (const name of wanted.names) {
    using _made = await ensureDirectory(root, allocation, name, wanted.ownership, setLabel);
  }
}

async function ensureDirectory(
  root: OpenDirectory,
  parent: OpenDirectory,
  name: string,
  ownership: DirectoryOwnership,
  setLabel: typeof setSelinuxLabel,
): Promise<OpenDirectory> {
  const directory = makeDirectory(root, parent, name);
  try {
    if (!isAsWanted(directory.status(), ownership)) await finish(directory, ownership, setLabel);
    return directory;
  } catch (error) {
    directory[Symbol.dispose]();
    throw error;
  }
}

function makeDirectory(root: OpenDirectory, parent: OpenDirectory, name: string): OpenDirectory {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    makeUnfinished(parent, name);
    try {
      const directory = parent.openEntry(name);
      if (directory !== undefined) return directory;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      setAside(root, parent, name);
    }
  }
  throw new Failure({
    code: "directory-unsafe",
    what: `${parent.path}/${name} is replaced by something else as often as it is made`,
    fix: "find the pod that holds this allocation: a process in it, as root, replaces its directory",
  });
}

function makeUnfinished(parent: OpenDirectory, name: string): void {
  try {
    parent.makeEntry(name, UNFINISHED);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EEXIST") return;
    if (code !== "ENOSPC") throw error;
    throw new Failure({
      code: "root-full",
      what: `the file system has no space for the directory ${JSON.stringify(name)}`,
      where: parent.path,
      fix: "let dist/mount-root/main.mjs mount the root: its tmpfs makes directories without a free byte",
      cause: error,
    });
  }
}

/** Owner before mode, because a directory that is briefly too open would be a way in; the mode last, so that it shows a finished one. */
async function finish(
  directory: OpenDirectory,
  ownership: DirectoryOwnership,
  setLabel: typeof setSelinuxLabel,
): Promise<void> {
  directory.chmod(UNFINISHED);
  directory.chown(ownership.owner, ownership.group);
  if (ownership.selinuxLabel !== undefined) {
    await setLabel([directory.fd], ownership.selinuxLabel);
  }
  directory.chmod(ownership.mode);
  // Without CAP_FSETID, which the daemon has from its start, the kernel takes the setgid bit off and says nothing.
  if (isAsWanted(directory.status(), ownership)) return;
  throw new Failure({
    code: "capability-missing",
    what: "owner or mode of a socket directory cannot be set without CAP_FSETID",
    where: directory.path,
    fix: "give the daemon the capabilities of docs/security.md",
  });
}

/**
 * The first thing that {@link ensureSocketDirectories} would repair, in words; undefined where there is nothing. It
 * costs a few microseconds and does not look at labels.
 */
export function directoryProblem(wanted: SocketDirectories): string | undefined {
  const above = allocationDirectory(wanted.root, wanted.allocationId);
  const problem = problemOf(above, ALLOCATION_OWNERSHIP);
  if (problem !== undefined) return problem;
  for (const name of wanted.names) {
    const below = problemOf(join(above, name), wanted.ownership);
    if (below !== undefined) return below;
  }
  return undefined;
}

function problemOf(path: string, wanted: DirectoryOwnership): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return `${path} is gone`;
  if (!status.isDirectory()) return `${path} is not a directory`;
  if (isAsWanted(status, wanted)) return undefined;
  const is = `${status.uid}:${status.gid} ${(status.mode & 0o7777).toString(8)}`;
  return `${path} is ${is}, not ${wanted.owner}:${wanted.group} ${wanted.mode.toString(8)}`;
}

/** Whether owner, group and mode are these; the label is another matter. */
function isAsWanted(
  { uid, gid, mode }: { readonly uid: number; readonly gid: number; readonly mode: number },
  wanted: DirectoryOwnership,
): boolean {
  return uid === wanted.owner && gid === wanted.group && (mode & 0o7777) === wanted.mode;
}

/** Allocation directories below the root; entries of other names are left out. */
export async function listAllocationDirectories(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && isAllocationId(entry.name)).map(({ name }) => name);
}

/**
 * Whether an allocation's directory seems unused: it has not changed since `sinceMs` (milliseconds since the epoch) and
 * the directories in it are empty. Anything unexpected counts as use.
 */
export async function isIdle(root: string, allocationId: string, sinceMs: number): Promise<boolean> {
  using parent = openDirectory(root);
  using allocation = parent.openEntry(allocationId);
  if (allocation === undefined || allocation.status().mtimeMs > sinceMs) return false;
  for await (const entry of await allocation.list()) {
    if (!entry.isDirectory()) return false;
    using directory = allocation.openEntry(nameBytes(entry.name));
    if (directory === undefined) continue;
    for await (const _used of await directory.list()) return false;
  }
  return true;
}
