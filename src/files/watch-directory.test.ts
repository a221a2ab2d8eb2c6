import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
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
  it("reports a file that appears, changes, is replaced atomically, and disappears", async () => {
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

  it("does not report what was there before", async () => {
    await writeFile(join(directory, "old"), "");
    let changes = 0;
    watch = watchDirectory({ path: directory, onChange: () => changes++, onError: () => changes++ });
    await watch.ready;
    expect(changes).toBe(0);
  });

  it("does not read the directory, which may have a thousand entries", async () => {
    await writeFile(join(directory, "old"), "");
    // A read would renew it, because it is not newer than the change.
    await utimes(directory, 1, new Date());
    const next = await start();
    const change = next();
    await writeFile(join(directory, "new"), "");
    await change;
    expect((await stat(directory)).atimeMs).toBe(1_000);
  });

  it("reports nothing after it was closed", async () => {
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

  it("sees entries of a directory that is made later, and of one that is removed and made again", async () => {
    const clock = new ManualClock();
    const path = join(directory, "sub");
    let changes = 0;
    watch = watchDirectory({ path, onChange: () => changes++, onError: () => undefined, clock });
    await watch.ready;
    for (let times = 0; times < 3; times++) {
      await mkdir(path);
      const before = changes;
      await moved(clock, () => changes > before);
      await watchedFrom(path, () => changes);
      await rename(path, join(directory, `old-${times}`));
      await moved(clock, () => changes > before + 1);
    }
  });

  it("has one inotify watch, however many entries there are", async () => {
    const before = await inotifyWatches();
    for (let index = 0; index < 50; index++) await writeFile(join(directory, `${index}`), "");
    await start();
    expect((await inotifyWatches()) - before).toBe(1);
  });
});

/** Moves time on until something is so. */
async function moved(clock: ManualClock, isSo: () => boolean): Promise<void> {
  await expect
    .poll(async () => {
      await clock.advance(1_000);
      return isSo();
    })
    .toBe(true);
}

/** Writes files until a change is seen. */
async function watchedFrom(path: string, changes: () => number): Promise<void> {
  const before = changes();
  let written = 0;
  await expect
    .poll(async () => {
      await writeFile(join(path, `${written++}`), "");
      return changes();
    })
    .toBeGreaterThan(before);
}

/** Inotify watches of this process. */
async function inotifyWatches(): Promise<number> {
  const infos = await readdir("/proc/self/fdinfo");
  const texts = await Promise.all(
    infos.map((fd) => readFile(join("/proc/self/fdinfo", fd), "utf8").catch(() => "")),
  );
  return texts.join("").match(/^inotify /gm)?.length ?? 0;
}
