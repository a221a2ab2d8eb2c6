import { opendir, rmdir, unlink } from "node:fs/promises";
import { Failure, systemCode } from "../failure/failure.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import { type OpenDirectory, openDirectory } from "./open-directory.ts";

/** Removes an allocation's directory with all that a pod left in it; gone already is fine. */
export async function removeAllocationDirectory(root: string, allocationId: string): Promise<void> {
  if (!isAllocationId(allocationId)) {
    throw new Failure({
      code: "directory-unsafe",
      what: `${JSON.stringify(allocationId)} is not an allocation id, nothing is removed`,
      where: root,
    });
  }
  await using directory = await openDirectory(root);
  await removeEntry(directory, allocationId);
}

/**
 * Removes one entry and everything below it without ever following a link: each directory is opened with
 * O_NOFOLLOW and its entries are named through its descriptor. What is made anew meanwhile is taken too, up to
 * a few rounds.
 */
export async function removeEntry(parent: OpenDirectory, name: string): Promise<void> {
  for (let round = 0; round < 5; round++) {
    if (await tryUnlink(parent.entry(name))) return;
    await emptyDirectory(parent, name);
    if (await tryRemoveDirectory(parent.entry(name))) return;
  }
  throw new Failure({
    code: "directory-unsafe",
    what: `${parent.path}/${name} fills up as fast as it is emptied`,
    fix: "a process still writes there; end the pod that holds it",
  });
}

async function emptyDirectory(parent: OpenDirectory, name: string): Promise<void> {
  let directory: OpenDirectory | undefined;
  try {
    directory = await parent.openEntry(name);
  } catch (error) {
    // Swapped for a link or a file since the look before: the next round unlinks it.
    if (error instanceof Failure) return;
    throw error;
  }
  if (directory === undefined) return;
  await using held = directory;
  for await (const entry of await opendir(held.self)) await removeEntry(held, entry.name);
}

/** True when the entry is gone, false when it is a directory. */
async function tryUnlink(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return true;
    if (code === "EISDIR" || code === "EPERM") return false;
    throw error;
  }
}

/** True when the directory is gone, false when something is in it or it is no directory any more. */
async function tryRemoveDirectory(path: string): Promise<boolean> {
  try {
    await rmdir(path);
    return true;
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return true;
    if (code === "ENOTEMPTY" || code === "EEXIST" || code === "ENOTDIR") return false;
    throw error;
  }
}
