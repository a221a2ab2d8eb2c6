import { readdirSync, readFileSync } from "node:fs";

/** A process that stays the same one even where the kernel gives its pid to another. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start in clock ticks since boot: field 22 of /proc/<pid>/stat (proc(5)). */
  readonly startTime: string;
}

interface StatFields extends ProcessIdentity {
  readonly parent: number;
  readonly state: string;
}

/** The identity of a running process, or undefined where it does not run; a zombie counts as not running. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const fields = readStat(pid);
  if (fields === undefined || fields.state === "Z" || fields.state === "X") return undefined;
  return { pid, startTime: fields.startTime };
}

/** Whether this very process still runs. */
export function isRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startTime === identity.startTime;
}

/** Pids of everything below a process, children before grandchildren. */
export function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    const fields = /^\d+$/.test(entry) ? readStat(Number(entry)) : undefined;
    if (fields === undefined) continue;
    children.set(fields.parent, [...(children.get(fields.parent) ?? []), fields.pid]);
  }
  const found: number[] = [];
  const queue = [pid];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const below = children.get(next) ?? [];
    found.push(...below);
    queue.push(...below);
  }
  return found;
}

function readStat(pid: number): StatFields | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined; // gone between two looks: as if it had never been
  }
  // The program's name is in parentheses and may itself hold blanks and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, parent, startTime] = [fields[0], fields[1], fields[19]];
  if (state === undefined || parent === undefined || startTime === undefined) return undefined;
  return { pid, state, parent: Number(parent), startTime };
}
