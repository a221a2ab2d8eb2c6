import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DirectoryWatch, watchDirectory } from "./watch-directory.ts";

let directory: string;
let watch: DirectoryWatch | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "watch-"));
});

afterEach(async () => {
  await watch?.close();
  await rm(directory, { recursive: true, force: true });
});

/** Starts a watch; `next` resolves with the first change after it was called. */
async function start(): Promise<() => Promise<void>> {
  let changed = Promise.withResolvers<void>();
  watch = watchDirectory({
    path: directory,
    onChange: () => changed.resolve(),
    onError: (error) => changed.reject(error),
  });
  await watch.ready;
  return () => {
    changed = Promise.withResolvers();
    return changed.promise;
  };
}

describe("a directory watch", () => {
  it("reports a file that appears, changes, is replaced at once, and goes", async () => {
    const next = await start();
    const path = join(directory, "file");
    const acts: (() => Promise<void>)[] = [
      () => writeFile(path, "one"),
      () => writeFile(path, "two"),
      () => rm(path).then(() => writeFile(path, "three")),
      () => rm(path),
    ];
    for (const act of acts) {
      const change = next();
      await act();
      await change;
    }
  });

  it("says nothing of what was there before", async () => {
    await writeFile(join(directory, "old"), "");
    let changes = 0;
    watch = watchDirectory({ path: directory, onChange: () => changes++, onError: () => changes++ });
    await watch.ready;
    expect(changes).toBe(0);
  });

  it("says nothing after it was closed", async () => {
    let changes = 0;
    watch = watchDirectory({ path: directory, onChange: () => changes++, onError: () => changes++ });
    await watch.ready;
    await watch.close();
    const seen = Promise.withResolvers<void>();
    const second = watchDirectory({ path: directory, onChange: seen.resolve, onError: seen.reject });
    await second.ready;
    await writeFile(join(directory, "new"), "");
    await seen.promise;
    await second.close();
    expect(changes).toBe(0);
  });
});
