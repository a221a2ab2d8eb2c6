import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { silentLogger } from "../../src/logging/logger.ts";
import { type AllocationRecord, allocationRecordKind } from "../../src/records/allocation-record.ts";
import { RecordStore } from "../../src/records/record-store.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { RecordsDisk } from "../soak/records-disk.ts";

let run: LabRun;
let disk: RecordsDisk;
let store: RecordStore<AllocationRecord>;
beforeAll(async () => {
  run = await openLabRun();
  disk = await RecordsDisk.mount(run, join(run.directory, "a"));
});
beforeEach(async () => {
  store = await open();
});
afterAll(() => run?.close());

const open = () =>
  RecordStore.open(join(run.directory, "a/records/allocations"), allocationRecordKind, silentLogger);

const record = (id: string, sequence: number): AllocationRecord => ({
  ...{ id: id.repeat(16), pool: "sockets" },
  holder: { kind: "device-plugin", resource: "vhostuser/sockets", devices: ["sockets-00001"] },
  ...{ ownership: { owner: 107, group: 107, mode: 0o2770 }, createdAt: 1, sequence },
});

it("a disk that is read-only takes no record, which is said, and takes them again when it is back", async () => {
  await store.put(record("a", 1));
  await disk.makeReadOnly();
  try {
    const refusal = { code: "record-unwritable", message: expect.stringContaining("EROFS") };
    await expect(store.put(record("b", 2))).rejects.toMatchObject(refusal);
    await expect(store.remove("a".repeat(16))).rejects.toMatchObject(refusal);
    // Also a daemon that starts now has its records.
    expect((await open()).list()).toEqual([record("a", 1)]);
  } finally {
    await disk.makeWritable();
  }
  await store.put(record("b", 2));
  await store.remove("a".repeat(16));
  expect((await open()).list()).toEqual([record("b", 2)]);
});

it("a disk that becomes full in the middle of a write keeps all records before it, and no part of that one", async () => {
  await store.put(record("a", 1));
  await disk.fill();
  let taken = 1;
  try {
    // What is left of the file's last page takes some.
    for (;;) {
      await store.put(record("a", taken + 1));
      taken += 1;
    }
  } catch (error) {
    expect(error).toMatchObject({ code: "record-unwritable", message: expect.stringContaining("ENOSPC") });
  } finally {
    await disk.empty();
  }
  expect((await open()).get("a".repeat(16))).toEqual(record("a", taken));
  await store.put(record("c", 2));
  const again = await open();
  expect([again.get("c".repeat(16)), again.unreadable]).toEqual([record("c", 2), []]);
});
