import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { watchDirectory } from "../../src/files/watch-directory.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";

let run: LabRun;
beforeAll(async () => {
  run = await openLabRun();
});
afterAll(() => run?.close());

/** Over what is mounted there already. */
async function mountRoot(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  const trace = run.journal.note({ kind: "mount", path });
  run.cleanup.defer(`unmount ${path}`, async () => {
    await runProgram("umount", ["-l", path]);
    run.journal.strike(trace);
  });
  await runProgram("mount", ["-t", "tmpfs", "-o", "mode=0755,size=1m,nr_inodes=0", "vhostuser", path]);
}

describe("a root that is mounted over the one before", () => {
  it("is watched from then on", async () => {
    const root = join(run.directory, "again");
    await mountRoot(root);
    let changes = 0;
    const watch = watchDirectory({ path: root, onChange: () => changes++, onError: () => undefined });
    await watch.ready;
    await mountRoot(root);
    await expect.poll(() => changes, { timeout: 60_000 }).toBe(1);
    await writeFile(join(root, "one"), "");
    await expect.poll(() => changes, { timeout: 60_000 }).toBeGreaterThan(1);
    await watch.close();
  });
});
