import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Child, startChild } from "./child.ts";
import { type LabRun, openLabRun } from "./lab-run.ts";
import { identifyProcess, isRunning } from "./process-table.ts";

let top: string;
let run: LabRun;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-child-"));
  run = await openLabRun({ journalDirectory: join(top, "journals"), parentDirectory: top });
});
afterEach(async () => {
  await run.close();
  await rm(top, { recursive: true });
});

const shell = (name: string, script: string): Promise<Child> =>
  startChild(run, { name, command: "/bin/sh", args: ["-c", script] });

test("a program that ends on its own is told with its name, its end and its last words", async () => {
  const child = await shell("crasher", "echo first; echo out of paper >&2; exit 3");
  await expect(child.died).rejects.toMatchObject({
    code: "internal",
    message: "crasher ended with 3: first\nout of paper",
  });
  expect(await child.ended).toBe(3);
});

test("the words are its own, not those of one of the same name that ran before", async () => {
  await (await shell("twice", "echo before")).ended;
  await expect((await shell("twice", "echo after; kill -9 $$")).died).rejects.toThrow(
    /^twice ended with SIGKILL: after$/,
  );
});

test("a program that is not there is told with the way to get it", async () => {
  const fix = "apt-get install nowhere";
  const child = await startChild(run, { name: "ghost", command: "/nowhere/ghost", fix });
  await expect(child.died).rejects.toMatchObject({ code: "part-missing", fix });
});

test("a program that was stopped has not died, whatever signal it took", async () => {
  const child = await shell("stubborn", "trap '' TERM; while :; do sleep 1; done");
  const identity = identifyProcess(child.pid);
  await child.stop("SIGKILL");
  await child.stop();
  expect(await child.ended).toBe("SIGKILL");
  expect(identity !== undefined && isRunning(identity)).toBe(false);
  const both = await Promise.race([child.died, new Promise((resolve) => setImmediate(resolve, "silent"))]);
  expect(both).toBe("silent");
});
