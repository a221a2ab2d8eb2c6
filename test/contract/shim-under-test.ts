import type { ShimCommand } from "../shim/run-shim.ts";

/** Three builds of the CNI executable for the same processor. */
export interface ShimUnderTest {
  /** Times as shipped, but for those of waiting for a daemon. */
  readonly usual: ShimCommand;
  /** Its times for stdin, for a delegate and for the whole call are over at once. */
  readonly strict: ShimCommand;
  /** It waits long for what a test is about to do, however slow the machine. */
  readonly lenient: ShimCommand;
}

/** Macros of shim/bounds.h for the three builds, in milliseconds. */
export const SHIM_TIMES = {
  usual: { LISTEN_MS: 1500, LISTEN_DEL_MS: 300, RETURN_MS: 3000, RETURN_DEL_MS: 1000, REPEAT_AFTER_MS: 20 },
  strict: { STDIN_MS: 300, DELEGATE_MS: 300, DELEGATE_GRACE_MS: 200, CALL_MS: 10_000 },
  lenient: { LISTEN_MS: 60_000, RETURN_MS: 60_000, DELEGATE_PATIENCE_MS: 60_000 },
} as const;
