import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Journal } from "../machine/journal.ts";
import { removeCgroup } from "../machine/undo-trace.ts";

const ROOT = "/sys/fs/cgroup";
const PERIOD_US = 100_000;

/** A control group with bounds, of version 2 or 1, whichever the machine has. */
export interface LimitedCgroup extends AsyncDisposable {
  /** A shell line with which a shell puts itself in. */
  readonly enter: string;
  /** Puts a process in; what its memory was charged to before stays so. */
  moveIn(pid: number): Promise<void>;
  /** The most memory that it held at once, page cache and kernel included. */
  peakBytes(): Promise<number>;
  /** What it holds now: memory of its processes' own, and pages of files that were first read in it. */
  memoryNow(): Promise<{ readonly anonymousBytes: number; readonly fileBytes: number }>;
  /** How often the kernel killed in it for want of memory. */
  oomKills(): Promise<number>;
  /** How often it had used up its processor time. */
  throttled(): Promise<number>;
}

/** Makes one; needs root. `cpuMillis` 100 is a tenth of a processor. What the journal lists outlives no crash of the run. */
export async function limitedCgroup(
  journal: Journal,
  name: string,
  limits: { readonly memoryBytes: number; readonly cpuMillis: number },
): Promise<LimitedCgroup> {
  const quota = (limits.cpuMillis * PERIOD_US) / 1000;
  const isUnified = existsSync(join(ROOT, "cgroup.controllers"));
  const memory = isUnified ? join(ROOT, name) : join(ROOT, "memory", name);
  const cpu = isUnified ? memory : join(ROOT, "cpu", name);
  const folders = [...new Set([memory, cpu])];
  const notes = folders.map((path) => ({ path, id: journal.note({ kind: "cgroup", path }) }));
  for (const folder of folders) await mkdir(folder);
  if (isUnified) {
    await writeFile(join(ROOT, "cgroup.subtree_control"), "+memory +cpu");
    await writeFile(join(memory, "memory.max"), String(limits.memoryBytes));
    await writeFile(join(cpu, "cpu.max"), `${quota} ${PERIOD_US}`);
  } else {
    await writeFile(join(memory, "memory.limit_in_bytes"), String(limits.memoryBytes));
    await writeFile(join(cpu, "cpu.cfs_period_us"), String(PERIOD_US));
    await writeFile(join(cpu, "cpu.cfs_quota_us"), String(quota));
  }
  const counter = async (file: string, key: string) =>
    Number(new RegExp(`^${key} (\\d+)$`, "m").exec(await readFile(file, "utf8"))?.[1]);
  return {
    enter: folders.map((folder) => `echo $$ > ${folder}/cgroup.procs`).join(" && "),
    moveIn: async (pid) => {
      for (const folder of folders) await writeFile(join(folder, "cgroup.procs"), String(pid));
    },
    peakBytes: async () =>
      Number(await readFile(join(memory, isUnified ? "memory.peak" : "memory.max_usage_in_bytes"), "utf8")),
    memoryNow: async () => ({
      anonymousBytes: await counter(join(memory, "memory.stat"), isUnified ? "anon" : "rss"),
      fileBytes: await counter(join(memory, "memory.stat"), isUnified ? "file" : "cache"),
    }),
    oomKills: () => counter(join(memory, isUnified ? "memory.events" : "memory.oom_control"), "oom_kill"),
    throttled: () => counter(join(cpu, "cpu.stat"), "nr_throttled"),
    [Symbol.asyncDispose]: async () => {
      for (const { path, id } of notes) {
        await removeCgroup(path);
        journal.strike(id);
      }
    },
  };
}
