import { readdir } from "node:fs/promises";
import { isAllocationId } from "../../names/allocation-id.ts";

/** Allocation directories below the root; what does not look like one is not ours and is left out. */
export async function listAllocationDirectories(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && isAllocationId(entry.name)).map(({ name }) => name);
}
