import { readdir, readFile, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../src/failure/failure.ts";
import { shrinkHugepages } from "./hugepage-pool.ts";
import type { Trace } from "./journal.ts";
import { isRunning, type ProcessIdentity } from "./process-table.ts";
import { runProgram } from "./run-program.ts";
import { waitUntil } from "./wait-until.ts";

const FINISH_LIMIT_MS = 300_000;
const KILL_LIMIT_MS = 10_000;

/** One line for people about what is given back. */
export function describeTrace(trace: Trace): string {
  switch (trace.kind) {
    case "process":
      return `process ${trace.identity.pid}`;
    case "mount":
      return `mount ${trace.path}`;
    case "network-namespace":
      return `network namespace ${trace.name}`;
    case "hugepages":
      return `${trace.count} hugepages of ${trace.pageKiB} KiB`;
    case "cgroup":
      return `control group ${trace.path}`;
    case "file":
    case "directory":
      return `${trace.kind} ${trace.path}`;
  }
}

/** Undoes what a run left; something already gone is fine. */
export async function undoTrace(trace: Trace): Promise<void> {
  switch (trace.kind) {
    case "process":
      return endProcess(trace.identity, trace.finish);
    case "mount":
      return unmount(trace.path);
    case "network-namespace":
      return removeNetworkNamespace(trace.name);
    case "hugepages":
      return shrinkHugepages(trace);
    case "file":
      return removeOwnFile(trace.path, trace.text);
    case "directory":
      return removeDirectory(trace.path);
    case "cgroup":
      return removeCgroup(trace.path);
  }
}

/** Removes a directory of a run, after taking off whatever is mounted in it: what is below a mount is not ours. */
async function removeDirectory(path: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "");
  for (const mount of mounts.toReversed()) if (mount.startsWith(`${path}/`)) await unmount(mount);
  await rm(path, { recursive: true, force: true });
}

/** Deletes a named network namespace with everything in it. */
export async function removeNetworkNamespace(name: string): Promise<void> {
  const { stdout } = await runProgram("ip", ["netns", "list"]);
  if (stdout.split("\n").some((line) => line.split(" ")[0] === name)) {
    await runProgram("ip", ["netns", "delete", name]);
  }
}

/** Unmounts everything at a path, lazily, so that a stuck user cannot hold it. */
async function unmount(path: string): Promise<void> {
  const mounted = async () =>
    (await readFile("/proc/self/mounts", "utf8")).split("\n").some((line) => line.split(" ")[1] === path);
  while (await mounted()) await runProgram("umount", ["--lazy", path]);
}

/** Removes a control group and those below it; the kernel keeps one busy for a moment after its last process has ended. */
export async function removeCgroup(path: string): Promise<void> {
  const below = await readdir(path, { withFileTypes: true }).catch(() => []);
  for (const entry of below) if (entry.isDirectory()) await removeCgroup(join(path, entry.name));
  const isRemoved = async () => {
    try {
      await rmdir(path);
      return true;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return true;
      if (systemCode(error) === "EBUSY") return false;
      throw error;
    }
  };
  await waitUntil(isRemoved, { what: `${path} is empty`, limitMs: KILL_LIMIT_MS });
}

async function endProcess(identity: ProcessIdentity, finish: boolean): Promise<void> {
  if (!isRunning(identity)) return;
  if (!finish) {
    try {
      process.kill(identity.pid, "SIGKILL");
    } catch (error) {
      if (systemCode(error) !== "ESRCH") throw error;
    }
  }
  await waitUntil(() => !isRunning(identity), {
    what: `process ${identity.pid} ends`,
    limitMs: finish ? FINISH_LIMIT_MS : KILL_LIMIT_MS,
  });
}

async function removeOwnFile(path: string, text: string): Promise<void> {
  try {
    if ((await readFile(path, "utf8")) === text) await rm(path, { force: true });
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}
