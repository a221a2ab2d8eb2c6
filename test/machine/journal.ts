import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../src/failure/failure.ts";
import { identifyProcess, isRunning, type ProcessIdentity } from "./process-table.ts";

/** Where runs keep their journals; a tmpfs, because nothing that they list survives a reboot. */
export const JOURNAL_DIRECTORY = "/run/kube-vhostuser-lab";

/** Something that a run changed on the machine and that outlives its process. */
export type Trace =
  /** A program of ours; `finish` says to wait for its end instead of killing it (apt in the middle of dpkg). */
  | { readonly kind: "process"; readonly identity: ProcessIdentity; readonly finish: boolean }
  | { readonly kind: "mount"; readonly path: string }
  | { readonly kind: "network-namespace"; readonly name: string }
  /** `before` pages stood there when `count` more were asked for. */
  | {
      readonly kind: "hugepages";
      readonly pageKiB: number;
      readonly before: number;
      readonly count: number;
      /** True once the kernel's answer was seen; until then the pages may or may not have been added. */
      readonly granted: boolean;
    }
  /** A file with exactly this text; another text means that another program wrote it since. */
  | { readonly kind: "file"; readonly path: string; readonly text: string }
  | { readonly kind: "directory"; readonly path: string }
  /** A control group without groups in it; it goes after the processes that were put there. */
  | { readonly kind: "cgroup"; readonly path: string };

interface JournalLine {
  readonly owner?: ProcessIdentity;
  readonly note?: { readonly id: number; readonly trace: Trace };
  readonly strike?: number;
}

/**
 * What one run has to give back, on disk before it is taken, so that a later run (or the guard) can repair what a
 * SIGKILL interrupted. One JSON line per fact; writes are synchronous and small.
 */
export class Journal {
  readonly path: string;
  #nextId = 1;

  /** @param path made by {@link createJournal} or {@link claimLeftJournals} */
  constructor(path: string) {
    this.path = path;
  }

  /** Records a trace and gives the number to {@link strike} it by. */
  note(trace: Trace): number {
    const id = this.#nextId++;
    this.#append({ note: { id, trace } });
    return id;
  }

  /** The trace is gone. */
  strike(id: number): void {
    this.#append({ strike: id });
  }

  /** All is given back. */
  remove(): void {
    rmSync(this.path, { force: true });
  }

  #append(line: JournalLine): void {
    appendFileSync(this.path, `${JSON.stringify(line)}\n`);
  }
}

/** A journal of a run that is gone. */
export interface LeftJournal {
  readonly journal: Journal;
  /** What is still there, oldest first. */
  readonly traces: ReadonlyArray<{ readonly id: number; readonly trace: Trace }>;
}

/** Starts the journal of this process. */
export function createJournal(name: string, directory: string = JOURNAL_DIRECTORY): Journal {
  mkdirSync(directory, { recursive: true });
  const path = join(directory, `${name}.journal`);
  writeOwner(path);
  return new Journal(path);
}

/** What all runs of this machine have to give back. */
export function listedTraces(directory: string = JOURNAL_DIRECTORY): Trace[] {
  return listJournals(directory).flatMap((path) => remaining(readLines(path)).map(({ trace }) => trace));
}

/** Takes over the journals whose process is gone; each is given to one caller only. */
export function claimLeftJournals(directory: string = JOURNAL_DIRECTORY): LeftJournal[] {
  return listJournals(directory).flatMap((path) => {
    const lines = readLines(path);
    const owner = lines.findLast((line) => line.owner !== undefined)?.owner;
    if (owner !== undefined && isRunning(owner)) return [];
    // Renaming is the claim: of two repairers one finds the file gone.
    const claimed = `${path.replace(/(\.by-\d+)?\.journal$/, "")}.by-${process.pid}.journal`;
    try {
      if (claimed !== path) renameSync(path, claimed);
    } catch (error) {
      if (systemCode(error) === "ENOENT") return [];
      throw error;
    }
    writeOwner(claimed);
    return [{ journal: new Journal(claimed), traces: remaining(lines) }];
  });
}

function writeOwner(path: string): void {
  const owner = identifyProcess(process.pid);
  if (owner === undefined) throw new Error(`/proc/${process.pid}/stat is unreadable`);
  appendFileSync(path, `${JSON.stringify({ owner } satisfies JournalLine)}\n`);
}

function listJournals(directory: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => name.endsWith(".journal"))
      .map((name) => join(directory, name));
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

function readLines(path: string): JournalLine[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
  return text.split("\n").flatMap((line) => {
    try {
      return line === "" ? [] : [JSON.parse(line) as JournalLine];
    } catch {
      return []; // the last line of a run that was killed while it wrote
    }
  });
}

function remaining(lines: readonly JournalLine[]): Array<{ id: number; trace: Trace }> {
  const struck = new Set(lines.flatMap((line) => line.strike ?? []));
  return lines.flatMap(({ note }) => (note === undefined || struck.has(note.id) ? [] : [note]));
}
