import { readFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";
import {
  compactMemory,
  countHugepages,
  type HugepageKiB,
  inHugepagePool,
  resizeHugepages,
  shrinkHugepages,
} from "./hugepage-pool.ts";
import { listedTraces } from "./journal.ts";
import type { LabRun } from "./lab-run.ts";

/**
 * Adds `needed` pages of one size to the machine's and gives exactly the added ones back when the run ends. Pages
 * that are free already may be another run's, which has not taken them yet: they count only where the kernel does not
 * give enough. Resolves with the number of pages that were added.
 * @throws Failure part-missing, with numbers, where there are too few even so
 */
export async function reserveHugepages(run: LabRun, pageKiB: HugepageKiB, needed: number): Promise<number> {
  if (needed <= 0) return 0;
  const added = await inHugepagePool(() => add(run, pageKiB, needed));
  if (added === needed) return added;
  const { free } = await countHugepages(pageKiB);
  if (free < needed) throw await notGiven(pageKiB, needed, free, added);
  run.progress(`the kernel gave ${added} of ${needed} hugepages of ${pageKiB} KiB; ${free} are free`);
  return added;
}

async function add(run: LabRun, pageKiB: HugepageKiB, needed: number): Promise<number> {
  const { total: before } = await countHugepages(pageKiB);
  const intent = { kind: "hugepages", pageKiB, before, count: needed } as const;
  const intentId = run.journal.note({ ...intent, granted: false });
  let total = before;
  for (let attempt = 1; attempt <= 3 && total < before + needed; attempt += 1) {
    if (attempt > 1) await compactMemory();
    await resizeHugepages(pageKiB, before + needed);
    total = (await countHugepages(pageKiB)).total;
  }
  const added = { ...intent, count: Math.max(0, total - before), granted: true } as const;
  const addedId = run.journal.note(added);
  run.journal.strike(intentId);
  run.cleanup.defer(`give back ${added.count} hugepages of ${pageKiB} KiB`, () =>
    shrinkHugepages(added, () => run.journal.strike(addedId)),
  );
  return added.count;
}

/** Pages that no journal lists: a run that ended has left behind what it made more, whatever other runs have now. */
export function countUnlistedHugepages(pageKiB: HugepageKiB): Promise<number> {
  return inHugepagePool(async () => {
    const { total } = await countHugepages(pageKiB);
    return listedTraces().reduce(
      (left, trace) => left - (trace.kind === "hugepages" && trace.pageKiB === pageKiB ? trace.count : 0),
      total,
    );
  });
}

async function notGiven(pageKiB: number, needed: number, free: number, added: number): Promise<Failure> {
  const memory = await readFile("/proc/meminfo", "utf8");
  const availableMiB = Math.floor(Number(/^MemAvailable:\s+(\d+)/m.exec(memory)?.[1] ?? 0) / 1024);
  return new Failure({
    code: "part-missing",
    what:
      `${needed} free hugepages of ${pageKiB} KiB are needed and ${free} are free` +
      ` (${added} of them added, ${availableMiB} MiB of memory available)`,
    where: `/sys/kernel/mm/hugepages/hugepages-${pageKiB}kB`,
    fix: "free some memory, or reboot: memory that is in pieces gives no hugepages",
  });
}
