import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { type RecordFormat, readRecord, writeRecord } from "./record-file.ts";

const FORMAT: RecordFormat<{ name: string }> = {
  version: 1,
  schema: z.object({ name: z.string() }),
};
let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-record-"));
  file = join(directory, "a.json");
});
afterEach(() => rm(directory, { recursive: true }));

describe("record files", () => {
  it("come back as they were written, with nothing left beside them", async () => {
    await writeRecord(file, 1, { name: "ä\n" });
    expect(await readRecord(file, FORMAT)).toEqual({ kind: "good", body: { name: "ä\n" } });
    expect(await readdir(directory)).toEqual(["a.json"]);
  });

  it("tell a missing one from an unreadable directory", async () => {
    expect(await readRecord(file, FORMAT)).toEqual({ kind: "missing" });
    await writeFile(file, "");
    await expect(readRecord(join(file, "below"), FORMAT)).rejects.toThrow(/ENOTDIR/);
  });

  it("are damaged after any cut", async () => {
    await writeRecord(file, 1, { name: "x" });
    const whole = (await readFile(file)).length;
    // The last byte is the closing newline: without it the record is still whole.
    for (let size = whole - 2; size >= 0; size--) {
      await truncate(file, size);
      expect(await readRecord(file, FORMAT), `cut to ${size} bytes`).toMatchObject({ kind: "damaged" });
    }
  });

  it("are damaged after a flipped bit in what they say", async () => {
    await writeRecord(file, 1, { name: "xyz" });
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace("xyz", "xyy"));
    expect(await readRecord(file, FORMAT)).toEqual({ kind: "damaged", reason: "its checksum is wrong" });
    await writeFile(file, text);
    await appendFile(file, "{}");
    expect(await readRecord(file, FORMAT)).toMatchObject({ kind: "damaged" });
  });

  it("of a newer release are refused, whatever their checksum", async () => {
    await writeRecord(file, 2, { name: "x", other: true });
    const refused = { code: "record-unreadable", message: expect.stringContaining("has version 2") };
    await expect(readRecord(file, FORMAT)).rejects.toMatchObject(refused);
    await writeFile(file, (await readFile(file, "utf8")).replace(/"sum": "\w+"/, '"sum": "of another kind"'));
    await expect(readRecord(file, FORMAT)).rejects.toMatchObject(refused);
  });

  it("that are whole and of another shape are damaged", async () => {
    await writeRecord(file, 1, { title: "x" });
    expect(await readRecord(file, FORMAT)).toMatchObject({ kind: "damaged" });
  });
});
