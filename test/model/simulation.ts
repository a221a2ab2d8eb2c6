import { seededRandom } from "../stand-in/kubelet/seeded-random.ts";

interface Due {
  readonly atMs: number;
  readonly order: number;
  readonly act: Act;
}

/** Something that is done at its time; false where that changes nothing for any program. */
export type Act = () => unknown;

/**
 * Time that passes only where {@link Simulation.advance} says so, and what happens in it. The same seed gives the same
 * order: programs learn the time, answers of the API and of the disk from here alone.
 */
export class Simulation {
  readonly random: () => number;
  /** Milliseconds of the time that no simulated machine can read. */
  nowMs = 0;
  /** Events so far. */
  events = 0;
  /** A heap: the next event first. */
  readonly #due: Due[] = [];
  #order = 0;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  /** True in so many of a hundred cases. */
  percent(chance: number): boolean {
    return chance > 0 && this.random() * 100 < chance;
  }

  /** Milliseconds in [from, to). */
  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.random() * items.length)];
  }

  /** Has something done in so many milliseconds; things of the same time are done in the order in which they came. */
  after(ms: number, act: Act): void {
    this.#order += 1;
    const due = { atMs: this.nowMs + Math.max(0, ms), order: this.#order, act };
    const heap = this.#due;
    let at = heap.push(due) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above] as Due;
      if (!isBefore(due, other)) break;
      heap[at] = other;
      at = above;
    }
    heap[at] = due;
  }

  /** Lets time pass. After each event, what waits for it runs until it waits again. */
  async advance(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    await settle();
    for (let next = this.#due[0]; next !== undefined && next.atMs <= endMs; next = this.#due[0]) {
      this.#removeFirst();
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.events += 1;
      if (next.act() !== false) await settle();
    }
    this.nowMs = endMs;
  }

  /** Lets time pass until a promise is settled. @throws what it rejects with, and where it takes too long */
  async until<Value>(promise: Promise<Value>, limitMs: number): Promise<Value> {
    let isSettled = false;
    const end = () => {
      isSettled = true;
    };
    promise.then(end, end);
    const endMs = this.nowMs + limitMs;
    await settle();
    while (!isSettled) {
      const next = this.#due[0];
      if (next === undefined || next.atMs > endMs) throw new Error(`not settled in ${limitMs} ms`);
      await this.advance(Math.max(0, next.atMs - this.nowMs));
    }
    return await promise;
  }

  #removeFirst(): void {
    const heap = this.#due;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1] as Due, heap[below] as Due)) below += 1;
      const other = heap[below] as Due;
      if (!isBefore(other, last)) break;
      heap[at] = other;
      at = below;
    }
    heap[at] = last;
  }
}

function isBefore(one: Due, other: Due): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/** Node runs all continuations that are ready before it calls back. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
