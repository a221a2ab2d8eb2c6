import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describeThrown, systemCode } from "../../failure/failure.ts";
import { readRecord } from "../../files/record-file.ts";
import { type AllocationRecord, allocationRecordKind } from "../../records/allocation-record.ts";
import { type PortRecord, portRecordKind } from "../../records/port-record.ts";
import type { RecordKind } from "../../records/record-store.ts";

/** Records as they are on disk, and what could not be read of them. */
export interface FoundRecords {
  readonly allocations: readonly AllocationRecord[];
  readonly ports: readonly PortRecord[];
  readonly unreadable: readonly string[];
}

/** Reads the daemon's records and changes nothing: the daemon, which owns them, may be running. */
export async function readRecords(directory: string): Promise<FoundRecords> {
  const allocations = await readKind(join(directory, "allocations"), allocationRecordKind);
  const ports = await readKind(join(directory, "ports"), portRecordKind);
  return {
    allocations: allocations.found,
    ports: ports.found,
    unreadable: [...allocations.unreadable, ...ports.unreadable],
  };
}

async function readKind<Body extends object>(directory: string, kind: RecordKind<Body>) {
  const found: Body[] = [];
  const unreadable: string[] = [];
  const files = await readdir(directory).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  });
  for (const file of files.sort()) {
    const path = join(directory, file);
    if (file.endsWith(".damaged")) unreadable.push(`${path}: it was damaged at an earlier start`);
    if (file.startsWith(".") || !file.endsWith(".json")) continue;
    try {
      const read = await readRecord(path, kind);
      if (read.kind === "good") found.push(read.body);
      if (read.kind === "damaged") unreadable.push(`${path}: ${read.reason}`);
    } catch (error) {
      unreadable.push(describeThrown(error));
    }
  }
  return { found, unreadable };
}
