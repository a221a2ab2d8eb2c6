import { seededRandom } from "../stand-in/kubelet/seeded-random.ts";

/** Choices that are the same for the same seed. */
export class Dice {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  /** True in so many of a hundred cases. */
  percent(chance: number): boolean {
    return this.below(100) < chance;
  }

  pick<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.below(items.length)] ?? items[0];
  }
}
