import { mkdir } from "node:fs/promises";
import { Failure, systemCode } from "../failure/failure.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { type OpenDirectory, openDirectory } from "./open-directory.ts";
import { removeEntry } from "./remove.ts";

/** The directory above a pod's own: root's, so that the pod's user can neither add nor swap anything in it. */
const ALLOCATION: DirectoryOwnership = { owner: 0, group: 0, mode: 0o755 };

/** What an allocation's directory must hold. */
export interface SocketDirectories {
  readonly root: string;
  readonly allocationId: string;
  /** Device ids and interface names; each gets a directory. */
  readonly names: readonly string[];
  readonly ownership: DirectoryOwnership;
}

/**
 * Makes an allocation's directory and those in it, or mends owner and mode of what is there; whatever lies in
 * them stays. Something that is not a directory but stands in the place of one is removed, never followed.
 */
export async function ensureSocketDirectories(wanted: SocketDirectories): Promise<void> {
  await using root = await openDirectory(wanted.root);
  await using allocation = await ensureDirectory(root, wanted.allocationId, ALLOCATION);
  for (const name of wanted.names) {
    await using _made = await ensureDirectory(allocation, name, wanted.ownership);
  }
}

async function ensureDirectory(
  parent: OpenDirectory,
  name: string,
  ownership: DirectoryOwnership,
): Promise<OpenDirectory> {
  const directory = await makeDirectory(parent, name);
  try {
    // By descriptor, and owner before mode: a directory that is briefly too open would be a way in.
    const status = await directory.handle.stat();
    if (status.uid !== ownership.owner || status.gid !== ownership.group) {
      await directory.handle.chown(ownership.owner, ownership.group);
    }
    await directory.handle.chmod(ownership.mode);
    return directory;
  } catch (error) {
    await directory[Symbol.asyncDispose]();
    throw error;
  }
}

async function makeDirectory(parent: OpenDirectory, name: string): Promise<OpenDirectory> {
  // A pod with root may put something else there again and again; it wins nothing but an error.
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      await mkdir(parent.entry(name), { mode: 0o700 });
    } catch (error) {
      if (systemCode(error) !== "EEXIST") throw error;
    }
    try {
      const directory = await parent.openEntry(name);
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
