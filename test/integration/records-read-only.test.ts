import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type AllocationRecord, allocationRecordKind } from "../../src/records/allocation-record.ts";
import { RecordStore } from "../../src/records/record-store.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { RecordsDisk } from "../soak/records-disk.ts";

let run: LabRun;
let disk: RecordsDisk;
beforeAll(async () => {
  run = await openLabRun();
  disk = await RecordsDisk.mount(run, join(run.directory, "a"));
});
afterAll(() => run?.close());

const record: AllocationRecord = {
  ...{ id: "a".repeat(16), pool: "sockets", resource: "vhostuser/sockets", devices: ["sockets-00001"] },
  ...{ ownership: { owner: 107, group: 107, mode: 0o2770 }, createdAt: 1, sequence: 1 },
};

it("a disk that becomes read-only in the middle of a write: what the write left goes when the disk is back", async () => {
  const directory = join(run.directory, "a/records/allocations");
  const store = await RecordStore.open(directory, allocationRecordKind);
  await store.put(record);
  const temporaries = async () => (await readdir(directory)).filter((name) => name.startsWith("."));
  // Between the end of the temporary file and its new name are some 50 µs: many tries until one is met.
  await waitUntil(
    async () => {
      let isOver = false;
      const writing = (async () => {
        while (!isOver) await store.put(record).catch(() => undefined);
      })();
      await delay(5);
      await disk.makeReadOnly();
      isOver = true;
      await writing;
      if ((await temporaries()).length > 0) return true;
      await disk.makeWritable();
      return false;
    },
    { what: "a write is met in its middle", limitMs: 100_000, everyMs: 0 },
  );
  await expect(store.sweep()).rejects.toThrow("EROFS");
  await disk.makeWritable();
  await store.sweep();
  expect(await readdir(directory)).toEqual([`${record.id}.json`]);
  expect(store.get(record.id)).toEqual(record);
});
