/**
 * Waits for a promise, or rejects with `failure()` as soon as the signal fires, also when it had fired before.
 * The work behind the promise goes on: its owner ends it.
 */
export async function orAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
  failure: () => Error,
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
