import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { CACHE_DIRECTORY } from "./cache.ts";
import { runProgram } from "./run-program.ts";

/** A program that is taken out of a Debian package, instead of installing all that the package brings with it. */
export interface PackagedProgram {
  /** Its path once it is unpacked. */
  readonly path: string;
  /** Where the package has it. */
  readonly inPackage: string;
}

/** A program of a package by its path there, for example `usr/bin/promtool`. */
export function packagedProgram(inPackage: string): PackagedProgram {
  return { path: join(CACHE_DIRECTORY, basename(inPackage)), inPackage };
}

/** Whether it was unpacked. */
export function isUnpacked({ path }: PackagedProgram): boolean {
  return existsSync(path);
}

/** Takes the program out of a package's file, and nothing else. */
export async function unpackProgram(program: PackagedProgram, packageFile: string): Promise<void> {
  await mkdir(CACHE_DIRECTORY, { recursive: true });
  const scratch = await mkdtemp(join(CACHE_DIRECTORY, "unpack-"));
  try {
    const unpack = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "./$3"';
    await runProgram("sh", ["-c", unpack, "sh", packageFile, scratch, program.inPackage]);
    const copy = join(scratch, program.inPackage);
    await chmod(copy, 0o755);
    await rename(copy, program.path);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Debian's prometheus brings a daemon that starts at once, and a dozen JavaScript libraries for its pages; tests of the
 * rules need its checker alone.
 */
export const PROMTOOL: PackagedProgram = packagedProgram("usr/bin/promtool");
