import { Failure } from "../failure/failure.ts";

/**
 * Ends a call of a switch that waited too long for another one; see KeyedMutex.run.
 * @param busy says which one, with the reason of the call's signal as its cause
 * @throws Failure dataplane-timeout, or the reason where that is a Failure
 */
export function timedOutBehind(busy: Failure): never {
  if (busy.cause instanceof Failure) throw busy.cause;
  throw new Failure({ code: "dataplane-timeout", what: busy.what, cause: busy.cause });
}
