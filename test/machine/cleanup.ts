import { describeThrown } from "../../src/failure/failure.ts";
import { type Clock, systemClock } from "../../src/sync/clock.ts";

/** How a cleanup behaves. */
export interface CleanupOptions {
  /** An undo that takes longer is abandoned and reported; default 60 000 ms. */
  readonly undoLimitMs?: number;
  readonly clock?: Clock;
}

interface UndoAction {
  readonly what: string;
  readonly undo: () => Promise<void> | void;
  readonly limitMs: number;
}

/**
 * Undo actions, run once in reverse order, all of them even where one fails. Whatever registers after the end has
 * begun is undone at once, so that a start that is still under way cannot leave anything.
 */
export class Cleanup {
  readonly #actions: UndoAction[] = [];
  readonly #stop = new AbortController();
  readonly #undoLimitMs: number;
  readonly #clock: Clock;
  #end: Promise<void> | undefined;

  constructor(options: CleanupOptions = {}) {
    this.#undoLimitMs = options.undoLimitMs ?? 60_000;
    this.#clock = options.clock ?? systemClock;
  }

  /** Aborted as soon as the end begins; waits and programs that take it stop then. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * Registers an undo. The function given back removes it from the list and runs it, for what ends earlier; the
   * second time it does nothing. `limitMs` overrides the limit of all.
   */
  defer(what: string, undo: () => Promise<void> | void, limitMs = this.#undoLimitMs): () => Promise<void> {
    const action = { what, undo, limitMs };
    if (this.#end !== undefined) {
      const late = this.#undo(action);
      late.catch(() => undefined);
      throw new Error(`stopping: ${what}`, { cause: this.#stop.signal.reason });
    }
    this.#actions.push(action);
    return async () => {
      const index = this.#actions.indexOf(action);
      if (index < 0) return;
      this.#actions.splice(index, 1);
      await this.#undo(action);
    };
  }

  /**
   * Undoes everything, last first. Called again it gives the same end.
   * @throws AggregateError with every undo that failed, after all of them ran
   */
  run(reason: unknown = new Error("the run ends")): Promise<void> {
    this.#end ??= this.#runAll(reason);
    return this.#end;
  }

  async #runAll(reason: unknown): Promise<void> {
    await Promise.resolve(); // lets `run` store this promise before anything registers late
    this.#stop.abort(reason);
    const errors: unknown[] = [];
    for (let action = this.#actions.pop(); action !== undefined; action = this.#actions.pop()) {
      try {
        await this.#undo(action);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) {
      throw new AggregateError(errors, `not all was undone: ${errors.map(describeThrown).join("; ")}`);
    }
  }

  async #undo(action: UndoAction): Promise<void> {
    const inTime = new AbortController();
    const limit = this.#clock.sleep(action.limitMs, inTime.signal).then(() => {
      throw new Error(`took longer than ${action.limitMs} ms`);
    });
    limit.catch(() => undefined);
    try {
      await Promise.race([Promise.resolve().then(action.undo), limit]);
    } catch (cause) {
      throw new Error(`${action.what}: ${describeThrown(cause)}`, { cause });
    } finally {
      inTime.abort();
    }
  }
}
