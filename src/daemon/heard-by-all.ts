import type { NodeEvents } from "../observe/events/node-events.ts";
import type { ReconcileWatch } from "../observe/reconcile-watch.ts";
import type { ReconcileObserver } from "../reconcile/reconcile-pass.ts";

/** Has metrics and, where they are wanted, Kubernetes events hear what the reconciler does. */
export function heardByAll(watch: ReconcileWatch, events: NodeEvents | undefined): ReconcileObserver {
  return {
    passBegan() {
      const passed = watch.passBegan();
      return () => {
        passed();
        events?.passEnded();
      };
    },
    progress: () => watch.progress(),
    stageFailed: (error) => watch.stageFailed(error),
    itemFailed: (error) => watch.itemFailed(error),
    portTried: (port, isSettled) => watch.portTried(port, isSettled),
    portRestored: (record, changes) => events?.restored(record, changes),
    leftover: (what, count) => watch.leftover(what, count),
    repaired: (kind) => watch.repaired(kind),
    reclaimed: (pool) => watch.reclaimed(pool),
  };
}
