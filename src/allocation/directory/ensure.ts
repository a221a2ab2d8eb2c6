import { Failure, systemCode } from "../../failure/failure.ts";
import type { DirectoryOwnership } from "../../names/directory-ownership.ts";
import { type Clock, systemClock } from "../../sync/clock.ts";
import { ALLOCATION_OWNERSHIP, isAsWanted, type SocketDirectories } from "./expected.ts";
import { isLocked } from "./locked-directory.ts";
import { type OpenDirectory, openDirectory } from "./open-directory.ts";
import { removeEntry } from "./remove.ts";
import { setSelinuxLabel } from "./selinux-label.ts";

/** Collaborators, for tests, and the end of patience. */
export interface EnsureOptions {
  /** Ends the wait for room. */
  readonly signal?: AbortSignal | undefined;
  /** How long a root without a free inode is waited for, in milliseconds: `directory-guard` empties what fills it. Default 10 s. */
  readonly roomMs?: number;
  readonly clock?: Clock;
  readonly setLabel?: typeof setSelinuxLabel;
}

/** Mode of a directory that is not finished: no pool has it, and none looks so when it is locked. */
const UNFINISHED = 0o100;
const NO_ROOM_MS = 10_000;
const NO_ROOM_RETRY_MS = 100;

/**
 * Makes an allocation's directory and those in it, or mends owner, mode and label of what is there; whatever lies in
 * them stays. Something that is not a directory but stands in the place of one is removed, never followed.
 * @throws Failure `root-full`, `capability-missing`, `label-refused`, `directory-unsafe`
 */
export async function ensureSocketDirectories(
  wanted: SocketDirectories,
  options: EnsureOptions = {},
): Promise<void> {
  using root = openDirectory(wanted.root);
  const { selinuxLabel } = wanted.ownership;
  const above = selinuxLabel === undefined ? ALLOCATION_OWNERSHIP : { ...ALLOCATION_OWNERSHIP, selinuxLabel };
  using allocation = await ensureDirectory(root, wanted.allocationId, above, options);
  for (const name of wanted.names) {
    using _made = await ensureDirectory(allocation, name, wanted.ownership, options);
  }
}

async function ensureDirectory(
  parent: OpenDirectory,
  name: string,
  ownership: DirectoryOwnership,
  options: EnsureOptions,
): Promise<OpenDirectory> {
  const directory = await makeDirectory(parent, name, options);
  try {
    const status = directory.status();
    if (!isLocked(status, ownership) && !isAsWanted(status, ownership)) {
      await finish(directory, ownership, options);
    }
    return directory;
  } catch (error) {
    directory[Symbol.dispose]();
    throw error;
  }
}

/**
 * By descriptor. Owner before mode, because a directory that is briefly too open would be a way in; the mode is last,
 * so that it tells of a directory that has its label too, whatever a crash interrupted.
 */
async function finish(
  directory: OpenDirectory,
  ownership: DirectoryOwnership,
  options: EnsureOptions,
): Promise<void> {
  const where = directory.path;
  withCapability("CAP_FOWNER", where, () => directory.chmod(UNFINISHED));
  withCapability("CAP_CHOWN", where, () => directory.chown(ownership.owner, ownership.group));
  if (ownership.selinuxLabel !== undefined) {
    await (options.setLabel ?? setSelinuxLabel)([directory.fd], ownership.selinuxLabel);
  }
  withCapability("CAP_FOWNER", where, () => directory.chmod(ownership.mode));
  // Without it the kernel takes the setgid bit off and says nothing.
  if (!isAsWanted(directory.status(), ownership)) throw missing("CAP_FSETID", where);
}

function withCapability(name: string, where: string, change: () => void): void {
  try {
    change();
  } catch (error) {
    if (systemCode(error) === "EPERM") throw missing(name, where, error);
    throw error;
  }
}

function missing(name: string, where: string, cause?: unknown): Failure {
  return new Failure({
    code: "capability-missing",
    what: `owner or mode of a socket directory cannot be set without ${name}`,
    where,
    fix: "give the daemon the capabilities of docs/security.md",
    cause,
  });
}

async function makeDirectory(
  parent: OpenDirectory,
  name: string,
  options: EnsureOptions,
): Promise<OpenDirectory> {
  // A pod with root may put something else there again and again; it wins nothing but an error.
  for (let attempt = 0; attempt < 3; attempt++) {
    await makeUnfinished(parent, name, options);
    try {
      const directory = parent.openEntry(name);
      if (directory !== undefined) return directory;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      await removeEntry(parent, name);
    }
  }
  throw new Failure({
    code: "directory-unsafe",
    what: `${parent.path}/${name} is replaced by something else as often as it is made`,
    fix: "look at the pod that holds this allocation; it has root and misuses it",
  });
}

async function makeUnfinished(
  parent: OpenDirectory,
  name: string,
  { clock = systemClock, signal, roomMs = NO_ROOM_MS }: EnsureOptions,
): Promise<void> {
  // Counted, because the clock may be set back and whoever waits here for kubelet has no other end.
  for (let waitedMs = 0; ; waitedMs += NO_ROOM_RETRY_MS) {
    try {
      parent.makeEntry(name, UNFINISHED);
      return;
    } catch (error) {
      const code = systemCode(error);
      if (code === "EEXIST") return;
      if (code !== "ENOSPC") throw error;
      if (waitedMs >= roomMs) {
        throw new Failure({
          code: "root-full",
          what: `there is no room for the directory ${JSON.stringify(name)}`,
          where: parent.path,
          fix: "see what fills the root (find ROOT -xdev | wc -l), or give it more inodes (rootFileSystem.inodes)",
          cause: error,
        });
      }
      await clock.sleep(NO_ROOM_RETRY_MS, signal);
    }
  }
}
