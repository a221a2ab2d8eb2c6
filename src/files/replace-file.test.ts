import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { replaceFile, replaceMemoryFile } from "./replace-file.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-replace-"));
});
afterEach(() => rm(directory, { recursive: true }));

describe.each([
  {
    name: "on disk",
    replace: (path: string, text: string, mode: number) =>
      replaceFile(path, text, mode, async () => undefined),
  },
  {
    name: "in memory",
    replace: async (path: string, text: string, mode: number) => replaceMemoryFile(path, text, mode),
  },
])("a file replaced $name", ({ replace }) => {
  it.each([0o600, 0o444])("has its text and the mode %o, whatever the umask", async (mode) => {
    const path = join(directory, "file");
    const before = process.umask(0o077);
    try {
      await replace(path, "old", mode);
      await replace(path, "new", mode);
    } finally {
      process.umask(before);
    }
    expect(await readFile(path, "utf8")).toBe("new");
    expect((await stat(path)).mode & 0o7777).toBe(mode);
    expect(await readdir(directory)).toEqual(["file"]);
  });

  it("leaves nothing behind when it cannot be put in place", async () => {
    await mkdir(join(directory, "file/in-the-way"), { recursive: true });
    await expect(replace(join(directory, "file"), "text", 0o444)).rejects.toThrow(/EISDIR|ENOTEMPTY/);
    expect(await readdir(directory)).toEqual(["file"]);
  });
});
