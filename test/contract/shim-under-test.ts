import { join } from "node:path";
import type { ShimCommand } from "../shim/run-shim.ts";

const USUAL = {
  LISTEN_MS: 1500,
  LISTEN_DEL_MS: 300,
  RETURN_MS: 3000,
  RETURN_DEL_MS: 1000,
  REPEAT_AFTER_MS: 20,
};

/** Macros of shim/bounds.h for builds of the CNI executable, in milliseconds. */
const BUILDS = {
  /** Times as shipped, but for those of waiting for a daemon. */
  usual: USUAL,
  /** Its times for stdin and for a delegate are over at once. */
  strict: { ...USUAL, STDIN_MS: 300, DELEGATE_MS: 300, DELEGATE_GRACE_MS: 200 },
  /** Its time for the whole call is. */
  hasty: { ...USUAL, CALL_MS: 300 },
  /** It waits long for what a test is about to do, however slow the machine. */
  lenient: { ...USUAL, LISTEN_MS: 60_000, RETURN_MS: 60_000, DELEGATE_PATIENCE_MS: 60_000 },
};

/** Builds of the CNI executable for the same processor. */
export type ShimUnderTest = Readonly<Record<keyof typeof BUILDS, ShimCommand>>;

/** Compiles to a path with these macros, and says how to run it. */
export type BuildShim = (output: string, defines: Readonly<Record<string, number>>) => Promise<ShimCommand>;

/** Makes all builds, in a directory. */
export async function buildShims(directory: string, build: BuildShim): Promise<ShimUnderTest> {
  const of = (name: keyof typeof BUILDS) => build(join(directory, name), BUILDS[name]);
  const builds = [of("usual"), of("strict"), of("hasty"), of("lenient")] as const;
  const [usual, strict, hasty, lenient] = await Promise.all(builds);
  return { usual, strict, hasty, lenient };
}
