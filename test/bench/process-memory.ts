import { readFile } from "node:fs/promises";

/**
 * Resident memory of a process now, in KiB. Counted by the kernel page by page: the cheaper numbers of
 * /proc/<pid>/status are estimates that miss a process as small as the CNI executable, and ru_maxrss includes what
 * the parent held when it forked.
 */
export function residentKiB(pid: number): Promise<number> {
  return rolledUp(pid, "Rss");
}

/** Memory of a process's own now, in KiB: without pages of files, which all processes of the same program share. */
export function anonymousKiB(pid: number): Promise<number> {
  return rolledUp(pid, "Anonymous");
}

async function rolledUp(pid: number, what: string): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const value = new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(rollup)?.[1];
  if (value === undefined) throw new Error(`process ${pid} has no memory: it is gone`);
  return Number(value);
}
