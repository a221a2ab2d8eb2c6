import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../failure/failure.ts";
import { readRecord } from "../../files/record-file.ts";
import { type AllocationRecord, allocationRecordKind } from "../../records/allocation-record.ts";
import { type PortRecord, portRecordKind } from "../../records/port-record.ts";
import type { RecordKind } from "../../records/record-store.ts";

/** Records as they are on disk, and what could not be read of them. */
export interface FoundRecords {
  readonly allocations: readonly AllocationRecord[];
  readonly ports: readonly PortRecord[];
  readonly unreadable: readonly string[];
  /** Whole, and of another release. */
  readonly foreign: readonly ForeignFile[];
}

/** A record that another release understands. */
export interface ForeignFile {
  readonly file: string;
  readonly reason: string;
  readonly body: unknown;
}

/** Reads the daemon's records and touches nothing: the daemon, whose they are, may be at work. */
export async function readRecords(directory: string): Promise<FoundRecords> {
  const allocations = await readKind(join(directory, "allocations"), allocationRecordKind);
  const ports = await readKind(join(directory, "ports"), portRecordKind);
  return {
    allocations: allocations.found,
    ports: ports.found,
    unreadable: [...allocations.unreadable, ...ports.unreadable],
    foreign: [...allocations.foreign, ...ports.foreign],
  };
}

async function readKind<Body extends object>(directory: string, kind: RecordKind<Body>) {
  const found: Body[] = [];
  const unreadable: string[] = [];
  const foreign: ForeignFile[] = [];
  const files = await readdir(directory).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  });
  for (const file of files.sort()) {
    const path = join(directory, file);
    // What the daemon set aside, and what it is writing at the moment.
    if (file.endsWith(".torn")) unreadable.push(`${path}: it was torn at an earlier start`);
    if (file.startsWith(".") || !file.endsWith(".json")) continue;
    const read = await readRecord(path, kind);
    if (read.kind === "good") found.push(read.body);
    if (read.kind === "torn") unreadable.push(`${path}: ${read.reason}`);
    if (read.kind === "foreign") foreign.push({ file: path, reason: read.reason, body: read.body });
  }
  return { found, unreadable, foreign };
}
