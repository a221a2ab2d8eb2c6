/**
 * Waits for works that run beside each other, and throws what the first of them threw: only when none of them is at
 * it any more, so that what follows, undoing them above all, follows all of them.
 */
export async function allDone(works: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  for (const outcome of await Promise.allSettled(works)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
