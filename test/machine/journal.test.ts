import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { claimLeftJournals, createJournal } from "./journal.ts";
import { repairLeftovers } from "./leftovers.ts";
import { identifyProcess, isRunning, type ProcessIdentity } from "./process-table.ts";
import { waitUntil } from "./wait-until.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "journal-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** The identity of a process that ran and is gone. */
async function deadProcess(): Promise<ProcessIdentity> {
  const child = spawn("sleep", ["60"]);
  await once(child, "spawn");
  const identity = identifyProcess(child.pid ?? -1);
  if (identity === undefined) throw new Error("the child did not run");
  child.kill("SIGKILL");
  await once(child, "close");
  return identity;
}

/** A journal as a run leaves it that was killed. */
async function leaveJournal(...lines: unknown[]): Promise<string> {
  const journal = createJournal("kvu-left", directory);
  appendFileSync(journal.path, `${JSON.stringify({ owner: await deadProcess() })}\n`);
  for (const line of lines) appendFileSync(journal.path, `${JSON.stringify(line)}\n`);
  return journal.path;
}

test("the journal of a living run is left alone", () => {
  const journal = createJournal("kvu-alive", directory);
  journal.note({ kind: "directory", path: directory });
  expect(claimLeftJournals(directory)).toEqual([]);
});

test("what was struck is not repaired, and a torn last line is no error", async () => {
  const path = await leaveJournal(
    { note: { id: 1, trace: { kind: "directory", path: "/gone" } } },
    { note: { id: 2, trace: { kind: "directory", path: "/there" } } },
    { strike: 1 },
  );
  appendFileSync(path, '{"note":{"id":3,"tra');
  expect(claimLeftJournals(directory).map(({ traces }) => traces)).toEqual([
    [{ id: 2, trace: { kind: "directory", path: "/there" } }],
  ]);
});

test("a control group is given back with what runs in it", async () => {
  const unified = existsSync("/sys/fs/cgroup/cgroup.controllers");
  const path = join("/sys/fs/cgroup", unified ? "" : "memory", `kvu-journal-${process.pid}`);
  await mkdir(path);
  const child = spawn("sh", ["-c", `echo $$ > ${path}/cgroup.procs && exec sleep 60`]);
  const ended = once(child, "close");
  const inIt = async () => (await readFile(join(path, "cgroup.procs"), "utf8")).trim() === String(child.pid);
  await waitUntil(inIt, { what: "the child is in its group", limitMs: 10_000 });
  const identity = identifyProcess(child.pid ?? -1);
  await leaveJournal(
    { note: { id: 1, trace: { kind: "cgroup", path } } },
    { note: { id: 2, trace: { kind: "process", identity, finish: false } } },
    { note: { id: 3, trace: { kind: "cgroup", path: `${path}-gone` } } },
  );
  expect(await repairLeftovers({ journalDirectory: directory })).toBe(3);
  await ended;
  expect(existsSync(path)).toBe(false);
});

test("a left journal is given to one repairer only", async () => {
  await leaveJournal();
  expect(claimLeftJournals(directory)).toHaveLength(1);
  expect(claimLeftJournals(directory)).toHaveLength(0);
});

test("repair ends our process and removes our directory, and then the journal is gone", async () => {
  const child = spawn("sleep", ["60"]);
  await once(child, "spawn");
  const ended = once(child, "close");
  const identity = identifyProcess(child.pid ?? -1);
  const left = join(directory, "left");
  await mkdir(left);
  const path = await leaveJournal(
    { note: { id: 1, trace: { kind: "directory", path: left } } },
    { note: { id: 2, trace: { kind: "process", identity, finish: false } } },
  );

  expect(await repairLeftovers({ journalDirectory: directory })).toBe(2);
  await ended;
  expect(child.signalCode).toBe("SIGKILL");
  expect(existsSync(left)).toBe(false);
  expect(existsSync(path)).toBe(false);
  expect(claimLeftJournals(directory)).toEqual([]);
});

test("a process that only has the pid of ours is not touched", async () => {
  const child = spawn("sleep", ["60"]);
  await once(child, "spawn");
  const identity = { pid: child.pid ?? -1, startTime: "1" };
  await leaveJournal({ note: { id: 1, trace: { kind: "process", identity, finish: false } } });

  await repairLeftovers({ journalDirectory: directory });
  const real = identifyProcess(identity.pid);
  expect(real !== undefined && isRunning(real)).toBe(true);
  child.kill("SIGKILL");
});

test("a file that somebody else has written since stays", async () => {
  const path = join(directory, "policy");
  appendFileSync(path, "theirs");
  await leaveJournal({ note: { id: 1, trace: { kind: "file", path, text: "ours" } } });
  await repairLeftovers({ journalDirectory: directory });
  expect(existsSync(path)).toBe(true);
});
