// Removal of directories that pods could write to, in two steps: one rename takes a directory out of its place, and
// what is in it is removed later, in the background, by PodDirectories.
import { renameSync } from "node:fs";
import { rename, rmdir, unlink } from "node:fs/promises";
import { nanoid } from "nanoid";
import { Failure, systemCode } from "../failure/failure.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { Clock } from "../sync/clock.ts";
import { nameBytes, type OpenDirectory, openDirectory } from "./open-directory.ts";

/** Directly below the root, where no pod reaches a name; a daemon that starts recognises it and goes on. */
const PREFIX = ".removing-";

/** Whether an entry of the root was set aside to be removed. */
export function isSetAside(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Takes an entry out of its place by a rename, whatever it is and whether or not it is still being filled. Gone is fine. */
export function setAside(root: OpenDirectory, parent: OpenDirectory, name: string): void {
  try {
    renameSync(parent.entry(name), root.entry(`${PREFIX}${nanoid()}`));
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}

/** Sets an allocation's directory aside with all that a pod left in it; gone already is fine. */
export async function removeAllocationDirectory(root: string, allocationId: string): Promise<void> {
  if (!isAllocationId(allocationId)) {
    throw new Failure({
      code: "directory-unsafe",
      what: `${JSON.stringify(allocationId)} is not an allocation id, nothing is removed`,
      where: root,
    });
  }
  using directory = openDirectory(root);
  setAside(directory, directory, allocationId);
}

/** The bounds of one attempt to remove what was set aside. */
export interface Attempt {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Entries to try at most. */
  readonly steps?: number;
}

/** Entries and milliseconds after which an attempt ends. */
const STEPS = 100_000;
const ATTEMPT_MS = 1_000;

/** Errors that say: there is something else by now, or something in it. */
const CHANGED = ["EISDIR", "EPERM", "ENOTDIR", "ENOTEMPTY", "EEXIST"];

/**
 * Removes what was set aside and everything below it, without following a link. Directories that are not empty are moved
 * up and emptied there, so that a tree of any depth takes three descriptors. What a process that still has the directory
 * open adds and swaps meanwhile costs steps and time, which are bounded.
 * @returns whether it is gone; else another attempt has to follow
 */
export async function removeSetAside(root: OpenDirectory, name: string, attempt: Attempt): Promise<boolean> {
  const { clock, signal } = attempt;
  const began = clock.monotonic();
  let left = attempt.steps ?? STEPS;
  const isOver = () => --left < 0 || signal.aborted || clock.monotonic() - began > ATTEMPT_MS;
  const top = openIfDirectory(() => root.openEntry(name));
  if (top === undefined) return isGoneAfter(unlink(root.entry(name)));
  try {
    await emptyDirectory(top, isOver);
    // While a directory is removed the root is locked, so its attributes must not be freed then but with our descriptor.
    return await isGoneAfter(rmdir(root.entry(name)));
  } finally {
    await top.closeLater();
  }
}

async function emptyDirectory(top: OpenDirectory, isOver: () => boolean): Promise<void> {
  closeToPod(top);
  let moved = 0;
  for (let hasProgressed = true; hasProgressed; ) {
    hasProgressed = false;
    for await (const entry of await top.list()) {
      if (isOver()) return;
      const path = top.entry(nameBytes(entry.name));
      if (await isGoneAfter(entry.isDirectory() ? rmdir(path) : unlink(path))) {
        hasProgressed = true;
        continue;
      }
      const child = openIfDirectory(() => top.openEntry(nameBytes(entry.name)));
      if (child === undefined) continue;
      try {
        closeToPod(child);
        for await (const below of await child.list()) {
          if (isOver()) return;
          const from = child.entry(nameBytes(below.name));
          const removal = below.isDirectory() ? rename(from, top.entry(`${PREFIX}${moved++}`)) : unlink(from);
          if (await isGoneAfter(removal)) hasProgressed = true;
        }
        if (await isGoneAfter(rmdir(path))) hasProgressed = true;
      } finally {
        await child.closeLater();
      }
    }
  }
}

/** Keeps out processes of the pod's user that still have the directory; root with CAP_DAC_OVERRIDE stays. */
function closeToPod(directory: OpenDirectory): void {
  directory.chown(0, 0);
  directory.chmod(0o700);
}

/** Opens an entry; undefined when it is gone or is no directory (any more). */
function openIfDirectory(open: () => OpenDirectory | undefined): OpenDirectory | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}

/** Whether the entry is gone; false when it became something else or something is in it. */
async function isGoneAfter(removal: Promise<void>): Promise<boolean> {
  try {
    await removal;
    return true;
  } catch (error) {
    const code = systemCode(error) ?? "";
    if (code === "ENOENT") return true;
    if (CHANGED.includes(code)) return false;
    throw error;
  }
}
