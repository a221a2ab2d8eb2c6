import { readFile, writeFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";

/** Where the pinned packages are. */
export const LOCK_FILE = "deploy/image/debian-packages.json";

/** A pinned Debian package. */
export interface LockedPackage {
  readonly version: string;
  readonly sha256: string;
}

/** Pinned packages: architecture, then name. */
export type DebianLock = Readonly<Record<string, Readonly<Record<string, LockedPackage>>>>;

/** @throws Failure part-missing where a package is not pinned */
export function lockedPackage(lock: DebianLock, architecture: string, name: string): LockedPackage {
  const found = lock[architecture]?.[name];
  if (found !== undefined) return found;
  throw new Failure({
    code: "part-missing",
    what: `the package ${name} is not pinned for ${architecture}`,
    where: LOCK_FILE,
    fix: "npm run image -- --renew-packages",
  });
}

/** Reads the pinned packages. */
export async function readDebianLock(): Promise<DebianLock> {
  return JSON.parse(await readFile(LOCK_FILE, "utf8")) as DebianLock;
}

/** Writes them, in an order that does not change. */
export async function writeDebianLock(lock: DebianLock): Promise<void> {
  await writeFile(LOCK_FILE, `${JSON.stringify(lock, undefined, 2)}\n`);
}
