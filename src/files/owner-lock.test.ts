import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../sync/clock.ts";
import { takeOwnership } from "./owner-lock.ts";

let directory: string;
let owner: ChildProcess | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-owner-"));
});
afterEach(async () => {
  owner?.kill("SIGKILL");
  owner = undefined;
  await rm(directory, { recursive: true });
});

/** Does not really wait, but counts ten seconds; `onSleep` is called at each wait. */
function quickClock(onSleep: () => Promise<void> = async () => undefined): Clock {
  let now = 0;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms) => {
      now += ms;
      await onSleep();
    },
  };
}

/** Another process that owns the records. */
async function startOwner(): Promise<ChildProcess> {
  const module = pathToFileURL(join(import.meta.dirname, "owner-lock.ts")).href;
  const script = `
    const { takeOwnership } = await import(${JSON.stringify(module)});
    await takeOwnership(${JSON.stringify(directory)}, { now: () => 0, monotonic: () => 0, sleep: async () => undefined });
    process.stdout.write("owns");
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (child.stdout === null) throw new Error("no stdout");
  await once(child.stdout, "data");
  return child;
}

describe("the records' owner", () => {
  it("is one process at a time", async () => {
    owner = await startOwner();
    await expect(takeOwnership(directory, quickClock())).rejects.toThrow(/another process owns the records/);
  });

  it("may be another process as soon as the previous one is killed", async () => {
    const first = await startOwner();
    let waits = 0;
    const clock = quickClock(async () => {
      waits += 1;
      if (waits !== 3) return;
      first.kill("SIGKILL");
      await once(first, "exit");
    });
    const lock = await takeOwnership(directory, clock);
    expect(waits).toBe(3);
    lock.release();
  });

  it("can change after a release", async () => {
    (await takeOwnership(directory, quickClock())).release();
    (await takeOwnership(directory, quickClock())).release();
  });
});
