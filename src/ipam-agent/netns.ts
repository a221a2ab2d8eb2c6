import type { Stats } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";

/** Where container runtimes have their network namespaces. The host's /var/run is a link to /run, which a container lacks. */
const NETNS = "/run/netns";
/** The agent runs in a pod, which uses no address of ours. */
const OWN_NETNS = "/proc/self/ns/net";

/**
 * Whether a network namespace is there, by its path as a runtime names it.
 * @param directory where this process sees {@link NETNS}
 * @throws Failure `part-missing` for a path elsewhere, and where the directory is not mounted: then it cannot be known
 */
export async function hasNetns(path: string, directory = NETNS): Promise<boolean> {
  const name = relative(NETNS, path.replace(/^\/var\/run\//, "/run/"));
  if (name === "" || dirname(name) !== "." || name.startsWith("."))
    throw unknown(`${path} is not in ${NETNS}`);
  if (await isThere(join(directory, name))) return true;
  if (!(await isThere(directory))) throw unknown(`${directory} is not there`);
  return false;
}

/** The same, but false for this process' own: CRI-O gives a path to the host's, for pods of the host's network. */
export async function hasOtherNetns(path: string, directory = NETNS): Promise<boolean> {
  if (!(await hasNetns(path, directory))) return false;
  const found = await stat(join(directory, basename(path))).catch(() => undefined);
  return found !== undefined && !isSame(found, await stat(OWN_NETNS));
}

/**
 * Paths of the network namespaces that are there, as a runtime names them, without this process' own.
 * @param directory where this process sees {@link NETNS}
 * @throws Failure `part-missing` where the directory is not mounted
 */
export async function listNetns(directory = NETNS): Promise<readonly string[]> {
  if (!(await isThere(directory))) throw unknown(`${directory} is not there`);
  const own = await stat(OWN_NETNS);
  const names: string[] = [];
  for (const name of await readdir(directory)) {
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found === undefined || !isSame(found, own)) names.push(join(NETNS, name));
  }
  return names;
}

function isSame(one: Stats, other: Stats): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
}

function unknown(what: string): Failure {
  return new Failure({
    code: "part-missing",
    what: `a network namespace cannot be looked for: ${what}`,
    fix: `mount the node's ${NETNS} into the agent's container`,
  });
}
