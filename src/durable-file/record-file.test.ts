import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { readRecord, writeRecord } from "./record-file.ts";

const schema = z.object({ name: z.string() });
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
    expect(await readRecord(file, 1, schema)).toEqual({ kind: "good", body: { name: "ä\n" } });
    expect(await readdir(directory)).toEqual(["a.json"]);
  });

  it("tell a missing one from an unreadable directory", async () => {
    expect(await readRecord(file, 1, schema)).toEqual({ kind: "missing" });
    await writeFile(file, "");
    await expect(readRecord(join(file, "below"), 1, schema)).rejects.toThrow(/ENOTDIR/);
  });

  it("are torn after any cut", async () => {
    await writeRecord(file, 1, { name: "x" });
    const whole = (await readFile(file)).length;
    // The last byte is the closing newline: without it the record is still whole.
    for (let size = whole - 2; size >= 0; size--) {
      await truncate(file, size);
      expect(await readRecord(file, 1, schema), `cut to ${size} bytes`).toMatchObject({ kind: "torn" });
    }
  });

  it("are torn after a flipped bit in what they say", async () => {
    await writeRecord(file, 1, { name: "xyz" });
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace("xyz", "xyy"));
    expect(await readRecord(file, 1, schema)).toEqual({ kind: "torn", reason: "its checksum is wrong" });
    await writeFile(file, text);
    await appendFile(file, "{}");
    expect(await readRecord(file, 1, schema)).toMatchObject({ kind: "torn" });
  });

  it("of a newer release are neither good nor torn", async () => {
    await writeRecord(file, 3, { other: true });
    expect(await readRecord(file, 2, schema)).toEqual({ kind: "newer", version: 3 });
  });
});
