import type { PortRecord } from "../records/port-record.ts";

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
  /**
   * Recorded ports were to be made, mended or removed, all where `only` is left out; `failed` could not be.
   * Names of ports.
   */
  portsTried(only: Iterable<string> | undefined, failed: ReadonlySet<string>): void;
  /** So many of what no pod holds any more could not be removed. */
  leftover(what: "allocation" | "port" | "directory", count: number): void;
  /** A port that is attached was not as its record asks, and is now; `changes` says what was not, one sentence each. */
  portRestored(record: PortRecord, changes: readonly string[]): void;
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
  portsTried: () => undefined,
  leftover: () => undefined,
  portRestored: () => undefined,
  repaired: () => undefined,
  reclaimed: () => undefined,
};
