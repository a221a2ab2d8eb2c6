import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../../src/config/load.ts";
import { watchDirectory } from "../../src/files/watch-directory.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { Pools } from "../../src/pools/pools.ts";
import { unobserved } from "../../src/reconcile/reconcile-pass.ts";
import { rebuildAllocations, restoreArtefacts } from "../../src/reconcile/restore-artefacts.ts";
import { openRecords, type Records } from "../../src/records/records.ts";
import { KeyedMutex } from "../../src/sync/keyed-mutex.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { MemoryDataplane } from "../stand-in/dataplane/memory-dataplane.ts";

let run: LabRun;
beforeAll(async () => {
  run = await openLabRun();
});
afterAll(() => run?.close());

/** A root of so many inodes, over what is mounted there already. */
async function mountRoot(path: string, inodes: number): Promise<void> {
  await mkdir(path, { recursive: true });
  const trace = run.journal.note({ kind: "mount", path });
  run.cleanup.defer(`unmount ${path}`, async () => {
    await runProgram("umount", ["-l", path]);
    run.journal.strike(trace);
  });
  await runProgram("mount", [
    "-t",
    "tmpfs",
    "-o",
    `mode=0755,size=1m,nr_inodes=${inodes}`,
    "vhostuser",
    path,
  ]);
}

describe("a root without room for any of many allocations", () => {
  const ALLOCATIONS = 20;
  let root: string;
  let records: Records;
  let sleptMs: number;
  const failed: unknown[] = [];
  const clock = {
    now: () => 10_000_000 + sleptMs,
    monotonic: () => 10_000_000 + sleptMs,
    sleep: async (ms: number) => {
      sleptMs += ms;
    },
  };

  beforeAll(async () => {
    root = join(run.directory, "full");
    records = await openRecords(join(run.directory, "records"));
    for (let index = 0; index < ALLOCATIONS; index++) {
      await records.allocations.put({
        ...{ id: String(index).padStart(16, "0"), pool: "sockets", resource: "v/s", createdAt: 1 },
        ...{ devices: [`sockets-000${10 + index}`], ownership: { owner: 107, group: 107, mode: 0o2770 } },
        sequence: index,
      });
    }
    await mountRoot(root, 100);
    for (let made = 0; made < 99; made++) await writeFile(join(root, `f${made}`), "");
  });
  beforeEach(() => {
    sleptMs = 0;
  });

  const places = () => ({ root, podRoot: "/p", deviceInfoDirectory: join(run.directory, "info") });
  const restore = () => {
    const pool = {
      name: "sockets",
      resource: "v/s",
      capacity: 99,
      dataplane: { type: "ovs-dpdk", bridge: "b" },
    };
    const config = parseConfig(JSON.stringify({ node: "n", pools: [pool] }), "test");
    return restoreArtefacts(
      {
        ...{
          context: {
            config,
            records,
            pools: new Pools({
              pools: [],
              allocations: records.allocations,
              open: () => new MemoryDataplane(),
              logger: silentLogger,
            }),
          },
          places: places(),
          locks: new KeyedMutex(),
        },
        ...{ logger: silentLogger, stop: new AbortController().signal },
        observer: { ...unobserved, itemFailed: (error) => failed.push(error) },
      },
      clock,
    );
  };

  it("is waited for once at the daemon's start", async () => {
    await rebuildAllocations(records, places(), silentLogger, undefined, clock);
    expect(sleptMs).toBe(5_000);
  });

  it("is waited for once in each pass, which says what is the matter, and has them all made with room again", async () => {
    await restore();
    expect(sleptMs).toBe(5_000);
    expect(failed).toHaveLength(ALLOCATIONS);
    for (const failure of failed) expect(failure).toMatchObject({ code: "root-full" });
    for (let made = 0; made < 99; made++) await rm(join(root, `f${made}`));
    await restore();
    expect(failed).toHaveLength(ALLOCATIONS);
    expect(await readdir(root)).toHaveLength(ALLOCATIONS);
  });
});

describe("a root that is mounted over the one before", () => {
  it("is watched from then on", async () => {
    const root = join(run.directory, "again");
    await mountRoot(root, 10);
    let changes = 0;
    const watch = watchDirectory({ path: root, onChange: () => changes++, onError: () => undefined });
    await watch.ready;
    await mountRoot(root, 10);
    await expect.poll(() => changes, { timeout: 60_000 }).toBe(1);
    await writeFile(join(root, "one"), "");
    await expect.poll(() => changes, { timeout: 60_000 }).toBeGreaterThan(1);
    await watch.close();
  });
});
