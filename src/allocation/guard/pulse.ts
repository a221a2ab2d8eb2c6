import type { Background } from "./background.ts";
import type { InodeStock } from "./inode-stock.ts";
import type { Place } from "./place.ts";

const PULSE_MS = 50;

/**
 * Places that no watch covers: those with sub-directories are looked at when the root fills, those that cannot be
 * watched every time.
 */
export class Pulse {
  readonly #background: Background;
  readonly #stock: InodeStock;
  readonly #look: (place: Place) => void;
  readonly #places = new Set<Place>();
  #isBeating = false;

  constructor(background: Background, stock: InodeStock, look: (place: Place) => void) {
    this.#background = background;
    this.#stock = stock;
    this.#look = look;
  }

  has(place: Place): boolean {
    return this.#places.has(place);
  }

  delete(place: Place): void {
    this.#places.delete(place);
  }

  add(place: Place): void {
    this.#places.add(place);
    if (!this.#isBeating) this.#background.spawn(this.#beat());
  }

  /** Goes on while there is such a place. */
  async #beat(): Promise<void> {
    this.#isBeating = true;
    while (this.#places.size > 0 && !this.#background.isOver) {
      await this.#background.sleep(PULSE_MS);
      const hasGrown = this.#stock.hasGrown();
      for (const place of this.#places) if (hasGrown || place.watch === undefined) this.#look(place);
    }
    this.#isBeating = false;
  }
}
