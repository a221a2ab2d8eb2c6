import { closeSync, fchmodSync, openSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nanoid } from "nanoid";
import { systemCode } from "../failure/failure.ts";

/** Temporary files are hidden and carry our name, so that no other program's are removed. */
const TEMPORARY_PREFIX = ".kube-vhostuser-";
/** A file that is not whole yet is for its writer alone. */
const OPEN_MODE = 0o600;

/**
 * Replaces a file whole, also after a power cut: readers see the old content or the new one, never a part. The temporary
 * file is made beside it, because rename is atomic within one file system only.
 * @param mode whatever the umask
 * @param inspect checks the new file, complete and on disk, before it replaces the old one; throws to keep the old one
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode: number,
  inspect: (temporary: string) => Promise<void>,
): Promise<void> {
  const temporary = temporaryBeside(path);
  let file: FileHandle | undefined;
  try {
    file = await open(temporary, "wx", OPEN_MODE);
    await file.writeFile(content);
    await file.chmod(mode);
    await file.sync();
    await file.close();
    file = undefined;
    await inspect(temporary);
    await rename(temporary, path);
  } catch (error) {
    await file?.close().catch(() => undefined);
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncDirectory(dirname(path));
}

/** Replaces a file on a tmpfs at once: its five calls take 16 µs, through Node's thread pool 100. @param mode whatever the umask */
export function replaceMemoryFile(path: string, text: string, mode: number): void {
  const temporary = temporaryBeside(path);
  let file: number | undefined = openSync(temporary, "wx", OPEN_MODE);
  try {
    // A tmpfs takes a small text whole or, when it is full, not at all.
    if (writeSync(file, text) < Buffer.byteLength(text)) throw new Error(`${path}: written in part only`);
    fchmodSync(file, mode);
    closeSync(file);
    file = undefined;
    renameSync(temporary, path);
  } catch (error) {
    if (file !== undefined) closeSync(file);
    unlinkSync(temporary);
    throw error;
  }
}

/**
 * Removes the temporary files of a process that was killed inside {@link replaceFile}. Only for the one writer of a
 * directory; a missing directory has none.
 */
export async function removeTemporaries(directory: string): Promise<void> {
  let names: readonly string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return;
    throw error;
  }
  for (const name of names) {
    if (name.startsWith(TEMPORARY_PREFIX)) await rm(join(directory, name), { force: true });
  }
}

/** Removes a file so that it stays removed after a power cut; already gone is fine. */
export async function removeFile(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncDirectory(dirname(path));
}

/** Waits until changes of a directory's entries survive a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function temporaryBeside(path: string): string {
  return join(dirname(path), `${TEMPORARY_PREFIX}${nanoid(12)}`);
}
