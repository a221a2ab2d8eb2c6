import { readFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";
import {
  compactMemory,
  countHugepages,
  type HugepageKiB,
  resizeHugepages,
  shrinkHugepages,
} from "./hugepage-pool.ts";
import type { LabRun } from "./lab-run.ts";

/**
 * Makes sure that `needed` pages of one size are free, adding only what lacks, and gives exactly the added ones
 * back when the run ends. Resolves with the number of pages that were added.
 * @throws Failure part-missing, with numbers, where the kernel does not give them
 */
export async function reserveHugepages(run: LabRun, pageKiB: HugepageKiB, needed: number): Promise<number> {
  const start = await countHugepages(pageKiB);
  const missing = needed - start.free;
  if (missing <= 0) return 0;

  const intent = { kind: "hugepages", pageKiB, before: start.total, count: missing } as const;
  const intentId = run.journal.note({ ...intent, granted: false });
  let total = start.total;
  for (let attempt = 1; attempt <= 3 && total < start.total + missing; attempt += 1) {
    if (attempt > 1) await compactMemory();
    await resizeHugepages(pageKiB, start.total + missing);
    total = (await countHugepages(pageKiB)).total;
  }
  const added = { ...intent, count: Math.max(0, total - start.total), granted: true } as const;
  const addedId = run.journal.note(added);
  run.journal.strike(intentId);
  run.cleanup.defer(`give back ${added.count} hugepages of ${pageKiB} KiB`, async () => {
    await shrinkHugepages(added);
    run.journal.strike(addedId);
  });

  const { free } = await countHugepages(pageKiB);
  if (free < needed) throw await notGiven(pageKiB, needed, free, added.count);
  return added.count;
}

async function notGiven(pageKiB: number, needed: number, free: number, added: number): Promise<Failure> {
  const memory = await readFile("/proc/meminfo", "utf8");
  const availableMiB = Math.floor(Number(/^MemAvailable:\s+(\d+)/m.exec(memory)?.[1] ?? 0) / 1024);
  return new Failure({
    code: "part-missing",
    what:
      `${needed} free hugepages of ${pageKiB} KiB are needed and ${free} are free` +
      ` (${added} of ${needed - free + added} added, ${availableMiB} MiB of memory available)`,
    where: `/sys/kernel/mm/hugepages/hugepages-${pageKiB}kB`,
    fix: "free some memory, or reboot: memory that is in pieces gives no hugepages",
  });
}
