import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { DirectorySync } from "./directory-sync.ts";

/** A disk whose flushes end when the test says so. */
function start() {
  const flushes: PromiseWithResolvers<void>[] = [];
  const directory = new DirectorySync("/d", () => {
    const flush = Promise.withResolvers<void>();
    flushes.push(flush);
    return flush.promise;
  });
  const flush = async (index: number) => {
    await expect.poll(() => flushes.length).toBeGreaterThan(index);
    return flushes[index] ?? Promise.reject(new Error("no flush"));
  };
  return { directory, flush, count: () => flushes.length };
}

describe("a directory's sync", () => {
  it("waits for a flush that begins after it was asked for, shared with all who ask meanwhile", async () => {
    const { directory, flush, count } = start();
    const done: string[] = [];
    const ask = (name: string) => directory.sync().then(() => void done.push(name));
    const first = ask("first");
    const running = await flush(0);
    const late = [ask("second"), ask("third")];
    running.resolve();
    await first;
    const next = await flush(1);
    expect(done).toEqual(["first"]);
    const latest = ask("fourth");
    next.resolve();
    await Promise.all(late);
    expect(done).toEqual(["first", "second", "third"]);
    (await flush(2)).resolve();
    await latest;
    expect(count()).toBe(3);
  });

  it("tells everybody who waited for a failed flush, and nobody else", async () => {
    const { directory, flush } = start();
    const first = directory.sync();
    const running = await flush(0);
    const second = directory.sync();
    running.reject(new Error("EIO"));
    await expect(first).rejects.toThrow("EIO");
    (await flush(1)).resolve();
    await second;
  });

  it("of a directory that is there succeeds, and of one that is not fails", async () => {
    const path = await mkdtemp(join(tmpdir(), "kvu-sync-"));
    await new DirectorySync(path).sync();
    await rm(path, { recursive: true });
    await expect(new DirectorySync(path).sync()).rejects.toThrow(/ENOENT/);
  });
});
