import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Failure } from "../failure/failure.ts";
import type { Clock } from "../sync/clock.ts";

/** The right to write a records directory; kept until it is released or the process dies. */
export interface OwnerLock {
  release(): void;
}

const WAIT_MS = 10_000;
const RETRY_MS = 200;
/** SQLITE_BUSY: another process holds the lock. */
const BUSY = 5;

/**
 * Makes sure that one process owns the records, also while an upgrade starts the new one before the old one is
 * gone. Node has no flock(2); an exclusive transaction on an empty SQLite file is the same thing, a lock of the
 * kernel that ends with the process.
 * @param signal ends the wait
 * @throws Failure `internal` when another process still owns it after 10 s; the signal's reason
 */
export async function takeOwnership(
  recordsDirectory: string,
  clock: Clock,
  signal?: AbortSignal,
): Promise<OwnerLock> {
  await mkdir(recordsDirectory, { recursive: true, mode: 0o700 });
  const database = new DatabaseSync(join(recordsDirectory, "owner.lock"), { timeout: 0 });
  const deadline = clock.monotonic() + WAIT_MS;
  try {
    while (!tryLock(database)) {
      if (clock.monotonic() < deadline) await clock.sleep(RETRY_MS, signal);
      else
        throw new Failure({
          code: "internal",
          what: "another process owns the records",
          where: recordsDirectory,
          fix: "stop it first; two of one program on one node would undo each other's work",
        });
    }
  } catch (error) {
    database.close();
    throw signal?.aborted ? signal.reason : error;
  }
  return { release: () => database.close() };
}

function tryLock(database: DatabaseSync): boolean {
  try {
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;");
    return true;
  } catch (error) {
    if (error instanceof Error && "errcode" in error && error.errcode === BUSY) return false;
    throw error;
  }
}
