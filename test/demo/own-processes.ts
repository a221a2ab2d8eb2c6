import { readdirSync, readFileSync } from "node:fs";

/**
 * Pids of processes that belong to a run: its name is in their environment, their command line, or, for what runs
 * in a container of the run, among their mounts. Meant for after the run's end, when the machine itself has no
 * mount of it any more.
 */
export function processesOfRun(runName: string): readonly number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.filter((pid) => belongsTo(pid, runName)).map(Number);
}

function belongsTo(pid: string, runName: string): boolean {
  return ["environ", "cmdline", "mountinfo"].some((file) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, "utf8").includes(runName);
    } catch {
      // It ended while we looked.
      return false;
    }
  });
}
