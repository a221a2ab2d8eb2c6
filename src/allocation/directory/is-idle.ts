import { readdir } from "node:fs/promises";
import { openDirectory } from "./open-directory.ts";

/**
 * Whether nobody seems to use an allocation's directory: it has not changed since `sinceMs` and the directories in
 * it are empty. Anything unexpected counts as use.
 */
export async function isIdle(root: string, allocationId: string, sinceMs: number): Promise<boolean> {
  using parent = openDirectory(root);
  using allocation = parent.openEntry(allocationId);
  if (allocation === undefined) return false;
  if (allocation.status().mtimeMs > sinceMs) return false;
  for (const { name, isDirectory } of await entriesOf(allocation.self)) {
    if (!isDirectory) return false;
    using directory = allocation.openEntry(name);
    if (directory !== undefined && (await readdir(directory.self)).length > 0) return false;
  }
  return true;
}

async function entriesOf(path: string): Promise<readonly { name: string; isDirectory: boolean }[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.map((entry) => ({ name: entry.name, isDirectory: entry.isDirectory() }));
}
