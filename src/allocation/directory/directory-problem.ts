import { lstatSync } from "node:fs";
import { join } from "node:path";
import type { DirectoryOwnership } from "../../names/directory-ownership.ts";
import { ALLOCATION_OWNERSHIP, isAsWanted, type SocketDirectories } from "./expected.ts";
import { allocationDirectory } from "./layout.ts";
import { isLocked } from "./locked-directory.ts";

/**
 * The first thing that `ensureSocketDirectories` would set right, in words; undefined where there is nothing. A look
 * at the names alone, a few microseconds each: of labels it knows nothing.
 */
export function directoryProblem(wanted: SocketDirectories): string | undefined {
  const above = allocationDirectory(wanted.root, wanted.allocationId);
  const problem = problemOf(above, ALLOCATION_OWNERSHIP);
  if (problem !== undefined) return problem;
  for (const name of wanted.names) {
    // The one above is root's, so nobody else's link is on this path.
    const below = problemOf(join(above, name), wanted.ownership);
    if (below !== undefined) return below;
  }
  return undefined;
}

function problemOf(path: string, wanted: DirectoryOwnership): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return `${path} is gone`;
  if (!status.isDirectory()) return `${path} is not a directory`;
  if (isLocked(status, wanted) || isAsWanted(status, wanted)) return undefined;
  const is = `${status.uid}:${status.gid} ${(status.mode & 0o7777).toString(8)}`;
  return `${path} is ${is}, not ${wanted.owner}:${wanted.group} ${wanted.mode.toString(8)}`;
}
