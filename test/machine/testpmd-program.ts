import { isUnpacked, packagedProgram, unpackProgram } from "./packaged-program.ts";

const TESTPMD = packagedProgram("usr/bin/dpdk-testpmd");

/** The path of dpdk-testpmd, and its path in containers. */
export const TESTPMD_PATH = TESTPMD.path;

/** Whether it was unpacked. */
export function hasTestpmd(): boolean {
  return isUnpacked(TESTPMD);
}

/**
 * Takes dpdk-testpmd out of Debian's dpdk-dev package. Installing that package would bring 190 more (headers of all
 * of DPDK) for one program.
 */
export function unpackTestpmd(packageFile: string): Promise<void> {
  return unpackProgram(TESTPMD, packageFile);
}
