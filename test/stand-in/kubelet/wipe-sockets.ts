import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** What kubelet does when it starts: deletes every unix socket in its plugin directory, and nothing else. */
export async function wipeSockets(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if ((await lstat(path)).isSocket()) await rm(path);
  }
}
