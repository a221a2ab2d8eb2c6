import type { ReconcileObserver } from "../../../src/reconcile/reconcile-pass.ts";

/** Ignores everything. */
export const unobserved: ReconcileObserver = {
  passBegan: () => () => undefined,
  progress: () => undefined,
  stageFailed: () => undefined,
  itemFailed: () => undefined,
  portTried: () => undefined,
  leftover: () => undefined,
  portRestored: () => undefined,
  repaired: () => undefined,
  reclaimed: () => undefined,
};
