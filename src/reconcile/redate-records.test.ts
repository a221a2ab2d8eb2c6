import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { redateRecords } from "./reclaim.ts";

let directory: string;
let records: Records;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-redate-"));
  records = await openRecords(directory);
});
afterEach(() => rm(directory, { recursive: true }));

function allocation(letter: string, createdAt: number): AllocationRecord {
  const ownership = { owner: 107, group: 107, mode: 0o2770 };
  const id = letter.repeat(16);
  return {
    ...{ id, pool: "sockets" },
    holder: { kind: "device-plugin", resource: "vhostuser/sockets", devices: ["sockets-00001"] },
    ...{ ownership, createdAt, sequence: 1 },
  };
}

const dates = (of: Records) => of.allocations.list().map(({ createdAt }) => createdAt);

it("moves dates in the future back to now, keeping their distances, and leaves the others", async () => {
  for (const [letter, createdAt] of [
    ["a", 400],
    ["b", 5_000],
    ["c", 5_300],
  ] as const) {
    await records.allocations.put(allocation(letter, createdAt));
  }
  redateRecords(records, 1_000);
  expect(dates(records)).toEqual([400, 700, 1_000]);
  redateRecords(records, 1_500);
  expect(dates(records)).toEqual([400, 700, 1_000]);
});

it("leaves the records on disk, so that nothing is lost if the clock was right after all", async () => {
  await records.allocations.put(allocation("a", 5_000));
  redateRecords(records, 1_000);
  expect(dates(await openRecords(directory))).toEqual([5_000]);
});
