import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { DirectorySync } from "./directory-sync.ts";

it("syncs a directory that is there, and fails for one that is not", async () => {
  const path = await mkdtemp(join(tmpdir(), "kvu-sync-"));
  await new DirectorySync(path).sync();
  await rm(path, { recursive: true });
  await expect(new DirectorySync(path).sync()).rejects.toThrow(/ENOENT/);
});
