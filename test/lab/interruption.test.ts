import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { countUnlistedHugepages } from "../machine/hugepages.ts";
import { JOURNAL_DIRECTORY } from "../machine/journal.ts";
import { requireMachine } from "../machine/packages.ts";
import { descendantsOf, identifyProcess, isRunning, type ProcessIdentity } from "../machine/process-table.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";

interface Taken {
  readonly name: string;
  readonly directory: string;
  readonly hugepages: number;
  /** Of the container's first process and of ovsdb-server. */
  readonly pids: readonly number[];
}

interface InterruptedRun {
  readonly program: ChildProcess;
  readonly taken: Taken;
  readonly processes: readonly ProcessIdentity[];
}

/** Starts a run that holds a pod, hugepages and processes, and waits until it has them. */
async function startRun(): Promise<InterruptedRun> {
  await requireMachine();
  const file = fileURLToPath(new URL("./interrupted-run.ts", import.meta.url));
  const program = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void program.kill("SIGKILL"));
  if (program.stdout === null) throw new Error("the run has no output");
  const failed = once(program, "exit").then(([code]) => {
    throw new Error(`the run ended with ${code} before it had anything; what it said stands above`);
  });
  const [line] = await Promise.race([once(createInterface(program.stdout), "line"), failed]);
  const taken = JSON.parse(line) as Taken;
  const [container = -1] = taken.pids;
  const below = await waitUntil(() => descendantsOf(container).length >= 2 && descendantsOf(container), {
    what: "the container's processes run",
  });
  const processes = [...taken.pids, ...below].flatMap((pid) => identifyProcess(pid) ?? []);
  return { program, taken, processes };
}

/** Waits until nothing of the run is on the machine. */
async function expectNothingLeft({ taken, processes }: InterruptedRun): Promise<void> {
  const journal = () => existsSync(join(JOURNAL_DIRECTORY, `${taken.name}.journal`));
  const namespaces = async () => (await runProgram("ip", ["netns", "list"])).stdout;
  await waitUntil(() => !existsSync(taken.directory) && !journal() && !processes.some(isRunning), {
    what: `nothing of ${taken.name} is left`,
  });
  expect(await namespaces()).not.toContain(taken.name);
}

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
  "%s gives everything back before the run ends",
  async (signal) => {
    const run = await startRun();
    expect(run.processes.length).toBeGreaterThanOrEqual(4);
    expect(run.taken.hugepages).toBe(5);
    const before = await countUnlistedHugepages(2048);
    const closed = once(run.program, "close");
    run.program.kill(signal);
    run.program.kill(signal);
    const [code] = await closed;

    expect(code).toBeGreaterThan(128);
    expect(existsSync(run.taken.directory)).toBe(false);
    expect(await countUnlistedHugepages(2048)).toBe(before);
    await expectNothingLeft(run);
  },
);

test("after SIGKILL the kernel ends its processes and its guard gives the rest back", async () => {
  const run = await startRun();
  const before = await countUnlistedHugepages(2048);
  const closed = once(run.program, "close");
  run.program.kill("SIGKILL");
  await closed;

  await expectNothingLeft(run);
  expect(await countUnlistedHugepages(2048)).toBe(before);
});
