/** Calls a listener when a signal fires, at once where it has fired already: of that the signal itself tells nobody. */
export function whenAborted(signal: AbortSignal, listener: () => void): void {
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
}
