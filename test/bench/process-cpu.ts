import { readFile } from "node:fs/promises";

/** The kernel counts in hundredths of a second towards programs on every architecture (USER_HZ). */
const TICKS_PER_SECOND = 100;

/** Seconds of a core that a process has used since it began, in the kernel and outside; in steps of 0.01 s. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name, in brackets, may hold blanks; what follows are fields 3 and up of proc_pid_stat(5).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user, system] = [fields[11], fields[12]].map(Number);
  if (user === undefined || system === undefined) throw new Error(`/proc/${pid}/stat is cut off`);
  return (user + system) / TICKS_PER_SECOND;
}
