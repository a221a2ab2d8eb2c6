import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type { Metrics } from "./metrics.ts";

/** Where the machine tells of itself. */
export interface MachinePlaces {
  /** Directory of all allocations. */
  readonly root: string;
  /** Default /sys. */
  readonly sys?: string;
}

/** Room in the root's file system, all 0 where nobody can tell, and hugepages, which have no series then. */
export function collectMachine({ root, sys = "/sys" }: MachinePlaces, metrics: Metrics): void {
  const room = readOrNothing(() => [statfsSync(root)]);
  metrics.replace(
    "vhostuser_root_size_bytes",
    room.map(({ blocks, bsize }) => [{}, blocks * bsize]),
  );
  metrics.replace(
    "vhostuser_root_free_bytes",
    room.map(({ bavail, bsize }) => [{}, bavail * bsize]),
  );
  const pages = hugepages(join(sys, "kernel/mm/hugepages"));
  metrics.replace(
    "vhostuser_hugepages",
    pages.map(({ size, total }) => [{ size }, total]),
  );
  metrics.replace(
    "vhostuser_hugepages_free",
    pages.map(({ size, free }) => [{ size }, free]),
  );
}

interface Hugepages {
  readonly size: string;
  readonly total: number;
  readonly free: number;
}

function hugepages(top: string): readonly Hugepages[] {
  return readOrNothing(() => readdirSync(top)).flatMap((name) => {
    const kib = Number(/^hugepages-(\d+)kB$/.exec(name)?.[1]);
    if (!(kib > 0)) return [];
    const read = (file: string) => Number(readFileSync(join(top, name, file), "utf8"));
    return readOrNothing(() => [
      { size: sizeName(kib), total: read("nr_hugepages"), free: read("free_hugepages") },
    ]);
  });
}

/** As in the resource `hugepages-2Mi`. */
function sizeName(kib: number): string {
  const units = ["Ki", "Mi", "Gi", "Ti"];
  let size = kib;
  while (size >= 1024 && size % 1024 === 0 && units.length > 1) {
    size /= 1024;
    units.shift();
  }
  return `${size}${units[0]}`;
}

function readOrNothing<Value>(read: () => readonly Value[]): readonly Value[] {
  try {
    return read();
  } catch {
    return [];
  }
}
