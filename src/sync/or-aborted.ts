/**
 * Waits for a promise, or rejects as soon as the signal fires, also when it had fired before; a promise that is
 * settled already wins. The work behind the promise goes on: its owner ends it.
 * @param failure what to reject with; default the signal's reason
 */
export async function orAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
  failure: () => unknown = () => signal.reason,
): Promise<Value> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(failure());
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
