import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cleanup } from "./cleanup.ts";
import { createJournal, JOURNAL_DIRECTORY, type Journal } from "./journal.ts";
import { repairLeftovers } from "./leftovers.ts";

/** One run of the lab: what it has, where it writes, and what it must give back. */
export interface LabRun {
  /** Unique and short, for example `kvu-x3Kd9a`: names of network namespaces begin with it. */
  readonly name: string;
  /** Everything on disk is in here, for example `/tmp/kvu-x3Kd9a` (short: unix sockets hold 107 bytes). */
  readonly directory: string;
  readonly cleanup: Cleanup;
  readonly journal: Journal;
  /** Reports progress in a line. */
  readonly progress: (line: string) => void;
  /** Says how far the present step is, where a terminal shows it. */
  readonly show: (text: string) => void;
  /** Gives everything back; the same as `cleanup.run()` plus the end of the guard. Idempotent. */
  close(reason?: unknown): Promise<void>;
}

/** How to open a run. */
export interface LabRunOptions {
  /** Where it reports to; see scripts/narrator.mjs. */
  readonly narrator?: { say(line: string): void; show?(text: string): void };
  /** Default {@link JOURNAL_DIRECTORY}. */
  readonly journalDirectory?: string;
  /** Where the run's directory is made; default the machine's temporary directory. */
  readonly parentDirectory?: string;
}

/**
 * Repairs what earlier runs left, then opens a run with a directory, a journal and a guard. The guard is a sleeping
 * shell in a session of its own that waits for the end of this process, however it comes, and then repairs what the
 * journal still lists.
 */
export async function openLabRun(options: LabRunOptions = {}): Promise<LabRun> {
  const progress = (line: string) => options.narrator?.say(line);
  const journalDirectory = options.journalDirectory ?? JOURNAL_DIRECTORY;
  await repairLeftovers({ progress, journalDirectory });

  const directory = await mkdtemp(join(options.parentDirectory ?? tmpdir(), "kvu-"));
  const name = basename(directory);
  const journal = createJournal(name, journalDirectory);
  const cleanup = new Cleanup();
  const endGuard = startGuard(journal.path, journalDirectory);
  journal.note({ kind: "directory", path: directory });
  cleanup.defer(`remove ${directory}`, () => rm(directory, { recursive: true, force: true }));

  let end: Promise<void> | undefined;
  const close = async (reason?: unknown) => {
    try {
      await cleanup.run(reason);
      journal.remove(); // kept where something could not be undone: the next run tries again
    } finally {
      await endGuard();
    }
  };
  return {
    name,
    directory,
    cleanup,
    journal,
    progress,
    show: (text) => options.narrator?.show?.(text),
    close: (reason) => {
      end ??= close(reason);
      return end;
    },
  };
}

/** Starts the guard; the function given back ends it and waits until it is gone. */
function startGuard(journalPath: string, journalDirectory: string): () => Promise<void> {
  const repair = fileURLToPath(new URL("./repair-leftovers.ts", import.meta.url));
  const guard = spawn(
    "/bin/sh",
    ["-c", 'read -r _; [ ! -e "$0" ] || exec "$@"', journalPath, process.execPath, repair, journalDirectory],
    { stdio: ["pipe", "ignore", "ignore"], detached: true, cwd: "/" },
  );
  guard.unref();
  const gone = once(guard, "close").catch(() => undefined);
  const pipe = guard.stdin;
  pipe?.on("error", () => undefined);
  if (pipe !== null && "unref" in pipe) (pipe as unknown as { unref(): void }).unref();
  return async () => {
    guard.ref();
    pipe?.end();
    await gone;
  };
}
