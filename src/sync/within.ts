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
  signal.addEventListener("abort", onAbort, { once: true });
  late.addEventListener("abort", onLate, { once: true });
  if (signal.aborted) onAbort();
  return limit.signal;
}
