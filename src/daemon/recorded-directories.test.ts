import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ensureSocketDirectories } from "../allocation/directory/ensure.ts";
import { DirectoryGuard } from "../allocation/guard/guard.ts";
import { writeRecord } from "../files/record-file.ts";
import { silentLogger } from "../logging/logger.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import { openRecords, type Records } from "../records/records.ts";
import { systemClock } from "../sync/clock.ts";
import { recordedDirectories } from "./recorded-directories.ts";

const OWNERSHIP = { owner: 107, group: 107, mode: 0o2770 };
const NEWER = 99;

let top: string;
let root: string;
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-recorded-"));
  root = join(top, "root");
  for (const name of ["root", "records/allocations", "records/ports"]) {
    await mkdir(join(top, name), { recursive: true });
  }
});
afterEach(() => rm(top, { recursive: true }));

/** An allocation, recorded in this version, with its directories. */
async function recorded(version: number, more: object = {}): Promise<string> {
  const id = newAllocationId();
  const device = "sockets-00001";
  const record = { id, pool: "sockets", resource: "v/s", devices: [device], createdAt: 1, sequence: 1 };
  const file = join(top, "records/allocations", `${id}.json`);
  await writeRecord(file, version, { ...record, ownership: OWNERSHIP, ...more });
  await ensureSocketDirectories({ root, allocationId: id, names: [device], ownership: OWNERSHIP });
  return id;
}

const open = (): Promise<Records> => openRecords(join(top, "records"));

describe("directories by the records", () => {
  it("are another release's to judge where a record of it speaks of them", async () => {
    const [ours, foreign, named, unknown] = [
      await recorded(1),
      await recorded(NEWER),
      await recorded(1),
      newAllocationId(),
    ];
    await writeRecord(join(top, "records/ports/c@net1.json"), NEWER, { on: named });
    const { isForeign, ownershipOf, namesOf } = recordedDirectories(await open());
    expect([ours, foreign, named, unknown].map(isForeign)).toEqual([false, true, true, false]);
    expect([ours, foreign, unknown].map(ownershipOf)).toEqual([OWNERSHIP, OWNERSHIP, undefined]);
    expect([ours, foreign].map(namesOf)).toEqual([["sockets-00001"], undefined]);
  });

  it("are not emptied where they are another release's, whatever it put there", async () => {
    const [ours, foreign] = [await recorded(1), await recorded(NEWER)];
    for (const id of [ours, foreign]) {
      for (let index = 0; index < 40; index++) await writeFile(join(root, id, `f${index}`), "");
    }
    const guard = new DirectoryGuard({
      ...{ root, clock: systemClock, logger: silentLogger },
      ...recordedDirectories(await open()),
    });
    await guard.start();
    await expect.poll(() => guard.counts.hoardsEmptied).toBe(1);
    await guard.close();
    expect(await readdir(join(root, ours))).toEqual(["sockets-00001"]);
    expect(await readdir(join(root, foreign))).toHaveLength(41);
  });
});
