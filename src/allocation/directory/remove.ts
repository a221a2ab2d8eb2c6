import { opendir, rename, rmdir, unlink } from "node:fs/promises";
import { Failure, systemCode } from "../../failure/failure.ts";
import { isAllocationId } from "../../names/allocation-id.ts";
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
  using directory = openDirectory(root);
  await removeEntry(directory, allocationId);
}

/** How often a directory that fills up again is emptied before that is an error. */
const ROUNDS = 5;

/** A pod's names are any bytes: one character for each, so that they come out as they went in. */
const BYTES = { encoding: "latin1" } as const;

/**
 * Removes one entry and everything below it without ever following a link: a directory is opened with O_NOFOLLOW
 * and its entries are named through its descriptor. A tree of any depth takes the same few descriptors, because
 * directories in it are moved up and emptied there, one after the other.
 */
export async function removeEntry(parent: OpenDirectory, name: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    if (await tryUnlink(parent.entry(name))) return;
    const top = openIfDirectory(() => parent.openEntry(name));
    if (top !== undefined) {
      using held = top;
      await emptyTree(held);
    }
    if (await tryRemoveDirectory(parent.entry(name))) return;
  }
  throw new Failure({
    code: "directory-unsafe",
    what: `${parent.path}/${name} fills up as fast as it is emptied`,
    fix: "a process still writes there; end the pod that holds it",
  });
}

async function emptyTree(top: OpenDirectory): Promise<void> {
  let moved = 0;
  let deeper = true;
  while (deeper) {
    deeper = false;
    for await (const { name } of await opendir(top.self, BYTES)) {
      if (await tryUnlink(top.byteEntry(name))) continue;
      if (await tryRemoveDirectory(top.byteEntry(name))) continue;
      const child = openIfDirectory(() => top.openByteEntry(name));
      if (child === undefined) continue;
      using held = child;
      for await (const grandchild of await opendir(held.self, BYTES)) {
        if (await tryUnlink(held.byteEntry(grandchild.name))) continue;
        await moveUp(held.byteEntry(grandchild.name), top.byteEntry(`.removing-${moved++}`));
        // What was moved may lie behind the point that the listing has reached.
        deeper = true;
      }
      await tryRemoveDirectory(top.byteEntry(name));
    }
  }
}

async function moveUp(from: Buffer, to: Buffer): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    // Gone meanwhile, or the pod has put something of that name there: the next round sees what is left.
    if (!["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR", "EISDIR"].includes(systemCode(error) ?? ""))
      throw error;
  }
}

/** Opens an entry; undefined when it is gone or was swapped for something that is no directory. */
function openIfDirectory(open: () => OpenDirectory | undefined): OpenDirectory | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}

/** True when the entry is gone, false when it is a directory. */
function tryUnlink(path: string | Buffer): Promise<boolean> {
  return isGoneAfter(unlink(path), ["EISDIR", "EPERM"]);
}

/** True when the directory is gone, false when something is in it or it is no directory any more. */
function tryRemoveDirectory(path: string | Buffer): Promise<boolean> {
  return isGoneAfter(rmdir(path), ["ENOTEMPTY", "EEXIST", "ENOTDIR"]);
}

async function isGoneAfter(removal: Promise<void>, kept: readonly string[]): Promise<boolean> {
  try {
    await removal;
    return true;
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return true;
    if (code !== undefined && kept.includes(code)) return false;
    throw error;
  }
}
