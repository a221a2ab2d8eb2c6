import { chown, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HeldDirectory } from "./held-directory.ts";
import { lockDirectory, unlockDirectory } from "./lock-directory.ts";

let directory: string;
let held: HeldDirectory;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-lock-"));
  await chown(directory, 107, 1500);
  const opened = HeldDirectory.open(directory);
  if (opened === undefined) throw new Error("no directory");
  held = opened;
});
afterEach(async () => {
  held[Symbol.dispose]();
  await rm(directory, { recursive: true });
});

const seen = async () => {
  const { uid, gid, mode } = await stat(directory);
  return [uid, gid, (mode & 0o7777).toString(8)];
};

describe("a lock", () => {
  it("takes a directory from its pod and gives it back as it was", async () => {
    const lock = lockDirectory(held);
    expect(await seen()).toEqual([0, 1500, "500"]);
    unlockDirectory(held, lock);
    expect(await seen()).toEqual([107, 1500, "700"]);
  });

  it("gives it back as the records say, whatever a pod or a crash made of it", async () => {
    await chown(directory, 0, 0);
    const lock = lockDirectory(held, { owner: 107, group: 1500, mode: 0o2770 });
    expect(await seen()).toEqual([0, 1500, "2550"]);
    unlockDirectory(held, lock);
    expect(await seen()).toEqual([107, 1500, "2770"]);
  });

  it("of which the second step fails leaves the directory to its pod", async () => {
    let uses = 0;
    const failing = {
      status: () => held.status(),
      // No descriptor at all for the step that sets the mode.
      get fd() {
        uses += 1;
        return uses === 2 ? 2 ** 30 : held.fd;
      },
    };
    expect(() => lockDirectory(failing)).toThrow(/EBADF/);
    expect(await seen()).toEqual([107, 1500, "700"]);
  });
});
