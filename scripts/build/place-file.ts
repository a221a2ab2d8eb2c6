import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a built file in one step: who opens or starts it meanwhile has the old one or the new one whole. */
export async function placeFile(path: string, contents: string | Uint8Array, mode = 0o644): Promise<void> {
  const unfinished = `${path}.${process.pid}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(unfinished, contents);
  await chmod(unfinished, mode);
  await rename(unfinished, path);
}
