import { orAborted } from "./or-aborted.ts";

/** One task's place in the queue. */
export interface Turn {
  /** Tasks of the same key run one after the other, in the order they came; other keys do not wait. */
  readonly key: string;
  /** What the task is, for those who wait for it in vain, for example "ADD of interface net1". */
  readonly what: string;
  /** Ends the wait, not the task; without one the wait has no end. */
  readonly signal?: AbortSignal;
}

interface Place {
  readonly what: string;
  /** Resolved when the place is the first. */
  readonly first: PromiseWithResolvers<void>;
}

/** Gives tasks of the same key their turns. */
export class OneAtATime {
  readonly #queues = new Map<string, Place[]>();
  /** By key: who wants to know when its queue is empty. */
  readonly #idle = new Map<string, PromiseWithResolvers<void>>();

  /** Resolves once no task of this key runs or waits; undefined where none does. */
  whenIdle(key: string): Promise<void> | undefined {
    if (!this.#queues.has(key)) return undefined;
    const idle = this.#idle.get(key) ?? Promise.withResolvers<void>();
    this.#idle.set(key, idle);
    return idle.promise;
  }

  /**
   * Runs `task` when it is its turn: at once where nobody is before it, even with a signal that has fired.
   * @param tooLate runs instead where the signal fires before that, told what is running. Those behind wait for it
   *   as they would for the task; what runs goes on meanwhile. Default: rejects with the signal's reason.
   */
  async run<Value>(
    turn: Turn,
    task: () => Promise<Value>,
    tooLate: (running: string) => Value | Promise<Value> = () => {
      throw turn.signal?.reason;
    },
  ): Promise<Value> {
    const queue = this.#queues.get(turn.key) ?? [];
    this.#queues.set(turn.key, queue);
    const place: Place = { what: turn.what, first: Promise.withResolvers() };
    queue.push(place);
    try {
      if (queue[0] !== place) await reachesFront(place, turn.signal);
      const running = queue[0];
      return await (running === undefined || running === place ? task() : tooLate(running.what));
    } finally {
      queue.splice(queue.indexOf(place), 1);
      queue[0]?.first.resolve();
      if (queue.length === 0) this.#endQueue(turn.key);
    }
  }

  #endQueue(key: string): void {
    this.#queues.delete(key);
    this.#idle.get(key)?.resolve();
    this.#idle.delete(key);
  }
}

/** Resolves when the place is the first one, or when the signal fires. */
async function reachesFront({ first }: Place, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) await first.promise;
  else await orAborted(first.promise, signal).catch(() => undefined);
}
