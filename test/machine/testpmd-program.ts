import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { CACHE_DIRECTORY } from "./cache.ts";
import { runProgram } from "./run-program.ts";

/** Where dpdk-testpmd lies, and where containers see it. */
export const TESTPMD_PATH = join(CACHE_DIRECTORY, "dpdk-testpmd");

/** Whether it was unpacked. */
export function hasTestpmd(): boolean {
  return existsSync(TESTPMD_PATH);
}

/**
 * Takes dpdk-testpmd out of Debian's dpdk-dev package. Installing that package would bring 190 more (headers of all
 * of DPDK) for one program.
 */
export async function unpackTestpmd(packageFile: string): Promise<void> {
  await mkdir(CACHE_DIRECTORY, { recursive: true });
  const scratch = await mkdtemp(join(CACHE_DIRECTORY, "unpack-"));
  try {
    await runProgram("dpkg-deb", ["-x", packageFile, scratch]);
    const copy = join(scratch, "dpdk-testpmd");
    await copyFile(join(scratch, "usr/bin/dpdk-testpmd"), copy);
    await chmod(copy, 0o755);
    await rename(copy, TESTPMD_PATH);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
