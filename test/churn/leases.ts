import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Who holds addresses by host-local's own files, as `<container>@<interface>`. One without a holder is host-local's own
 * loss: killed with the executable between making the file and writing it. Its release could not be requested.
 */
export async function readLeases(directory: string): Promise<readonly string[]> {
  const holders: string[] = [];
  for (const network of await readdir(directory).catch(() => [])) {
    for (const file of await readdir(join(directory, network))) {
      if (!/^[0-9.]+$/.test(file)) continue; // its lock, and what it gave last
      const text = await readFile(join(directory, network, file), "utf8").catch(() => undefined);
      if (text) holders.push(text.trim().split(/\s+/).join("@"));
    }
  }
  return holders;
}
