import type { ChildProcess } from "node:child_process";

/** Calls a listener when a signal fires, at once where it has fired already: a fired signal emits no event. */
export function whenAborted(signal: AbortSignal, listener: () => void): void {
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
}

/**
 * Waits for a promise, or rejects as soon as the signal fires, also when it had fired before; a promise that is
 * settled already wins. The work behind the promise continues: its owner ends it.
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

/**
 * A signal that fires with another one, or after so many milliseconds. Not `AbortSignal.any`, where the other one lives
 * long: Node (24) keeps some 70 bytes there for every signal that was ever made of it, also when that one is gone.
 */
export function within(signal: AbortSignal, ms: number): AbortSignal {
  const limit = new AbortController();
  const late = AbortSignal.timeout(ms);
  const fire = ({ reason }: AbortSignal) => {
    signal.removeEventListener("abort", onAbort);
    late.removeEventListener("abort", onLate);
    limit.abort(reason);
  };
  const onAbort = () => fire(signal);
  const onLate = () => fire(late);
  late.addEventListener("abort", onLate, { once: true });
  whenAborted(signal, onAbort);
  return limit.signal;
}

/** Does work with a signal that fires with another one, and when the work is over. See {@link within}. */
export async function linked<Value>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const own = new AbortController();
  const onAbort = () => own.abort(signal.reason);
  whenAborted(signal, onAbort);
  try {
    return await work(own.signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
    own.abort();
  }
}

/**
 * Kills a program that has not ended after so many milliseconds. Not spawn's own timeout: that keeps running where
 * the program could not be started (Node 24), and keeps our own process from ending.
 */
export function killAfter(child: ChildProcess, ms: number): void {
  const limit = setTimeout(() => child.kill("SIGKILL"), ms);
  const clear = () => clearTimeout(limit);
  child.once("error", clear);
  child.once("close", clear);
}
