import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";
import { exclusively } from "./exclusively.ts";

/** Sizes that x86-64 has, in KiB. */
export type HugepageKiB = 2048 | 1048576;

/** Pages of one size, as /sys/kernel/mm/hugepages counts them. */
export interface HugepageCounts {
  readonly total: number;
  readonly free: number;
}

/** Whether the kernel knows pages of this size at all. */
export function hasHugepageSize(pageKiB: HugepageKiB): boolean {
  return existsSync(directoryOf(pageKiB));
}

/** How many pages of one size there are. @throws Failure part-missing where the kernel has no such size */
export async function countHugepages(pageKiB: number): Promise<HugepageCounts> {
  const read = async (name: string) => Number(await readFile(`${directoryOf(pageKiB)}/${name}`, "utf8"));
  try {
    return { total: await read("nr_hugepages"), free: await read("free_hugepages") };
  } catch (cause) {
    throw new Failure({
      code: "part-missing",
      what: `the kernel has no hugepages of ${pageKiB} KiB`,
      where: directoryOf(pageKiB),
      fix: "use a kernel with hugetlbfs on a CPU that has this page size",
      cause,
    });
  }
}

/** Does work on the pool that reads a number and writes another one, so that no run's change between them is lost. */
export function inHugepagePool<Value>(work: () => Promise<Value>): Promise<Value> {
  return exclusively("hugepages", work);
}

/** Asks the kernel for `total` pages of one size; it may give fewer. */
export async function resizeHugepages(pageKiB: number, total: number): Promise<void> {
  await writeFile(`${directoryOf(pageKiB)}/nr_hugepages`, String(total));
}

/** Makes free memory contiguous: the page cache dropped (clean pages only), then compaction. */
export async function compactMemory(): Promise<void> {
  await writeFile("/proc/sys/vm/drop_caches", "3");
  await writeFile("/proc/sys/vm/compact_memory", "1").catch(() => undefined); // a kernel without compaction
}

/** What was added to a pool; see the journal's trace of the same name. */
export interface AddedHugepages {
  readonly pageKiB: number;
  readonly before: number;
  readonly count: number;
  readonly granted: boolean;
}

/**
 * Removes what was added and nothing else; another program's change of the pool in between stays.
 * @param removed called before another run sees the pool
 */
export async function shrinkHugepages(added: AddedHugepages, removed?: () => void): Promise<void> {
  await inHugepagePool(async () => {
    const { total } = await countHugepages(added.pageKiB);
    // Not known to be granted: at most what exceeds the number from before.
    const count = added.granted ? added.count : Math.min(added.count, Math.max(0, total - added.before));
    if (count > 0) await resizeHugepages(added.pageKiB, Math.max(0, total - count));
    removed?.();
  });
}

function directoryOf(pageKiB: number): string {
  return `/sys/kernel/mm/hugepages/hugepages-${pageKiB}kB`;
}
