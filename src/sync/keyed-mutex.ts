import { Failure } from "../failure/failure.ts";
import { orAborted } from "./deadlines.ts";

/** Asks for the lock of one key. */
export interface LockRequest {
  /** Tasks of the same key run one after the other, in the order they came; other keys do not wait. */
  readonly key: string;
  /** What the task is, for the errors of those who wait for it, for example "ADD of interface net1". */
  readonly what: string;
  /** What the key stands for, for errors, for example "container 4f2a"; default the key. */
  readonly where?: string;
  /** Ends the wait, not the task; without one the wait has no end. */
  readonly signal?: AbortSignal;
}

interface Waiter {
  readonly what: string;
  /** Resolved when all before it are done. */
  readonly first: PromiseWithResolvers<void>;
}

/** A lock for each key. */
export class KeyedMutex {
  /** By key: who holds the lock, then those who wait. */
  readonly #queues = new Map<string, Waiter[]>();

  /** Resolves once all tasks of this key that run or wait now are done; undefined when the lock is free. */
  whenIdle(key: string): Promise<void> | undefined {
    if (!this.#queues.has(key)) return undefined;
    return this.run({ key, what: "a wait for the tasks before" }, async () => undefined);
  }

  /**
   * Runs `task` while it holds the lock: at once where that is free, even with a signal that has fired.
   * @param onTimeout runs instead where the signal fires first, while the holder continues; those behind wait for it as
   *   for the task. It is given the Failure `busy`, with the signal's reason as its cause, and what holds the lock.
   * @throws Failure busy where the signal fires first and there is no `onTimeout`
   */
  async run<Value>(
    request: LockRequest,
    task: () => Promise<Value>,
    onTimeout: (busy: Failure, holder: string) => Value | Promise<Value> = (busy) => {
      throw busy;
    },
  ): Promise<Value> {
    const { key, what, signal } = request;
    const queue = this.#queues.get(key) ?? [];
    this.#queues.set(key, queue);
    const waiter: Waiter = { what, first: Promise.withResolvers() };
    queue.push(waiter);
    try {
      if (queue[0] !== waiter) {
        const first = waiter.first.promise;
        await (signal === undefined ? first : orAborted(first, signal).catch(() => undefined));
      }
      const holder = queue[0];
      if (holder === undefined || holder === waiter) return await task();
      return await onTimeout(busyWith(holder.what, request), holder.what);
    } finally {
      queue.splice(queue.indexOf(waiter), 1);
      queue[0]?.first.resolve();
      if (queue.length === 0) this.#queues.delete(key);
    }
  }
}

function busyWith(holder: string, { key, where = key, what, signal }: LockRequest): Failure {
  return new Failure({
    code: "busy",
    what: `${what} timed out while ${holder} is still running`,
    where,
    fix: "try again; the daemon's log says what hangs",
    cause: signal?.reason,
  });
}
