import { readdirSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { PodDirectories } from "../../../src/allocation/pod-directories.ts";
import { removeAllocationDirectory } from "../../../src/allocation/set-aside.ts";
import { ensureSocketDirectories } from "../../../src/allocation/socket-directories.ts";
import { silentLogger } from "../../../src/logging/logger.ts";
import { newAllocationId } from "../../../src/names/allocation-id.ts";
import { mountRoot } from "../../../src/node-setup/mount-root/mount-root.ts";
import { systemClock } from "../../../src/sync/clock.ts";
import { startChild } from "../../machine/child.ts";
import type { LabRun } from "../../machine/lab-run.ts";
import { runProgram } from "../../machine/run-program.ts";
import { partMissing } from "../../shim/part-missing.ts";
import type { BenchRun } from "../bench-suite.ts";
import type { Measurement, SuiteDefinition } from "../measurement.ts";

const MADE = 200_000;
const KINDS = ["files", "directories", "attributes"] as const;
const OWNERSHIP = { owner: 107, group: 107, mode: 0o2770 };

/** A root as in production, and a program that fills a directory in it without any memory limit. */
export interface RemovalRig {
  readonly run: LabRun;
  readonly root: string;
  readonly program: string;
  readonly made: number;
  readonly directories: PodDirectories;
  /** What the last filling and removal showed, by what the directory was filled with. */
  readonly shown: Map<string, { readonly memoryMb: number; readonly slowestMs: number }>;
}

/** Mounts the root, which goes with the run. */
export async function openRemovalRig({ run, isTrial }: BenchRun): Promise<RemovalRig> {
  const root = join(run.directory, "root");
  const program = join(run.directory, "hostile-pod");
  await runProgram("musl-gcc", [
    ...["-static", "-O2", "-o", program, join(import.meta.dirname, "../../lab/hostile-pod.c")],
  ]).catch(partMissing("musl-gcc", "gcc musl-tools"));
  await mkdir(root);
  // The pod's user has to come in.
  await chmod(run.directory, 0o711);
  const trace = run.journal.note({ kind: "mount", path: root });
  run.cleanup.defer(`unmount ${root}`, async () => {
    await runProgram("umount", ["-l", root]);
    run.journal.strike(trace);
  });
  await mountRoot({ root, sizeMiB: 16 });
  const directories = new PodDirectories({ root, clock: systemClock, logger: silentLogger });
  await directories.start();
  run.cleanup.defer("stop watching the root", () => directories.close());
  return { run, root, program, made: isTrial === true ? 1_000 : MADE, directories, shown: new Map() };
}

/** What a pod without a memory limit leaves: until it is removed, what it took, and what others feel meanwhile. */
export const removalSuite: SuiteDefinition<RemovalRig> = {
  name: "removal",
  peer: null,
  measurements: KINDS.flatMap((kind): readonly Measurement<RemovalRig>[] => [
    {
      ...{ name: `200,000 ${kind} of a pod, until they are removed`, unit: "ms" },
      ...{ repetitions: 1, shows: "median", ours: (rig) => fillAndRemove(rig, kind) },
    },
    {
      ...{ name: `memory of the node that 200,000 ${kind} take`, unit: "MB" },
      ...{
        repetitions: 1,
        shows: "median",
        ours: async ({ shown }) => shown.get(kind)?.memoryMb ?? Number.NaN,
      },
    },
    {
      ...{ name: `slowest directories of another allocation while ${kind} are made and removed`, unit: "ms" },
      ...{
        repetitions: 1,
        shows: "median",
        ours: async ({ shown }) => shown.get(kind)?.slowestMs ?? Number.NaN,
      },
    },
  ]),
};

async function fillAndRemove(rig: RemovalRig, kind: (typeof KINDS)[number]): Promise<number> {
  const { run, root, program, shown } = rig;
  const allocationId = newAllocationId();
  await ensureSocketDirectories({ root, allocationId, names: ["net1"], ownership: OWNERSHIP });
  const directory = join(root, allocationId, "net1");
  const before = await availableMb();
  const others = makeOthers(root);
  await writeFile(join(directory, "go"), "");
  const pod = await startChild(run, {
    name: `pod-${kind}`,
    command: "setpriv",
    args: ["--reuid", "107", "--regid", "107", "--clear-groups", program, kind, directory, String(rig.made)],
  });
  while (!(await readFile(pod.log, "utf8")).includes("done")) await delay(20);
  const memoryMb = before - (await availableMb());
  await pod.stop("SIGKILL");
  const began = performance.now();
  const earlier = new Set(readdirSync(root));
  await removeAllocationDirectory(root, allocationId);
  const [setAside] = readdirSync(root).filter((name) => name.startsWith(".") && !earlier.has(name));
  const isLeft = (name: string) => name === setAside;
  while (readdirSync(root).some(isLeft)) await delay(5);
  const removedMs = performance.now() - began;
  shown.set(kind, { memoryMb, slowestMs: await others() });
  return removedMs;
}

/** Makes directories of one allocation after the other, until it is asked for the longest time that one took, ms. */
function makeOthers(root: string): () => Promise<number> {
  let isOver = false;
  const made = (async () => {
    let slowest = 0;
    while (!isOver) {
      const allocationId = newAllocationId();
      const began = performance.now();
      await ensureSocketDirectories({ root, allocationId, names: ["a", "b"], ownership: OWNERSHIP });
      slowest = Math.max(slowest, performance.now() - began);
      await removeAllocationDirectory(root, allocationId);
      await delay(100);
    }
    return slowest;
  })();
  return () => {
    isOver = true;
    return made;
  };
}

async function availableMb(): Promise<number> {
  const text = await readFile("/proc/meminfo", "utf8");
  return Number(/^MemAvailable:\s+(\d+) kB$/m.exec(text)?.[1]) / 1024;
}
