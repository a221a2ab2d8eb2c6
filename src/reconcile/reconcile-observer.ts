/** Hears what the reconciler does. Its passes never overlap. */
export interface ReconcileObserver {
  /** A pass begins. @returns to be called at its end, however it ends */
  passBegan(): () => void;
  /** Work on one more port or listing begins. */
  progress(): void;
  /** A stage of the pass was left out. */
  stageFailed(error: unknown): void;
  /** One port, allocation or directory could not be put right; the pass goes on with the others. */
  itemFailed(error: unknown): void;
  /** Something was put right. */
  repaired(
    kind:
      | "unfinished-add"
      | "late-del"
      | "missing-del"
      | "orphan-port"
      | "stray"
      | "unknown-directory"
      | "directory"
      | "device-info"
      | "port"
      | "silent-guest",
  ): void;
  /** An allocation of this pool was removed. */
  reclaimed(pool: string): void;
}

/** Hears nothing, for tests. */
export const unobserved: ReconcileObserver = {
  passBegan: () => () => undefined,
  progress: () => undefined,
  stageFailed: () => undefined,
  itemFailed: () => undefined,
  repaired: () => undefined,
  reclaimed: () => undefined,
};
