/** Numbers from `first` to `last`, both included. */
export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

/** A set of numbers, addresses of one family or blocks of a grid, kept as ranges; it does not change. */
export class RangeSet {
  static readonly EMPTY = new RangeSet([]);
  /** In ascending order, with a gap before each. */
  readonly ranges: readonly Range[];
  /** How many numbers the set has. */
  readonly size: bigint;

  private constructor(ranges: readonly Range[]) {
    this.ranges = ranges;
    this.size = ranges.reduce((sum, { first, last }) => sum + last - first + 1n, 0n);
  }

  /** The union of ranges in any order; a range whose last number is before its first has none. */
  static of(ranges: Iterable<Range>): RangeSet {
    const sorted = [...ranges]
      .filter(({ first, last }) => first <= last)
      .sort((one, other) => (one.first < other.first ? -1 : Number(one.first > other.first)));
    const merged: Range[] = [];
    for (const range of sorted) {
      const before = merged.at(-1);
      if (before === undefined || range.first > before.last + 1n) merged.push(range);
      else if (range.last > before.last) merged[merged.length - 1] = { ...before, last: range.last };
    }
    return new RangeSet(merged);
  }

  has(value: bigint): boolean {
    return this.firstAtOrAfter(value) === value;
  }

  /** The lowest number of the set that is not below `value`. */
  firstAtOrAfter(value: bigint): bigint | undefined {
    const range = this.ranges[this.#indexAt(value)];
    return range === undefined || range.first > value ? range?.first : value;
  }

  /** The number with `index` lower ones in the set. */
  at(index: bigint): bigint | undefined {
    let rest = index;
    for (const { first, last } of this.ranges) {
      if (rest <= last - first) return rest < 0n ? undefined : first + rest;
      rest -= last - first + 1n;
    }
    return undefined;
  }

  plus(other: RangeSet): RangeSet {
    return RangeSet.of([...this.ranges, ...other.ranges]);
  }

  minus(other: RangeSet): RangeSet {
    const left: Range[] = [];
    for (const { first, last } of this.ranges) {
      let from = first;
      for (let index = other.#indexAt(first); from <= last; index++) {
        const hole = other.ranges[index];
        if (hole === undefined || hole.first > last) break;
        left.push({ first: from, last: hole.first - 1n });
        from = hole.last + 1n;
      }
      left.push({ first: from, last });
    }
    return RangeSet.of(left);
  }

  /** What both sets have. */
  and(other: RangeSet): RangeSet {
    return RangeSet.of(other.ranges.flatMap((range) => this.clip(range).ranges));
  }

  /** What the set has between `first` and `last`, both included. */
  clip({ first, last }: Range): RangeSet {
    const found: Range[] = [];
    for (let index = this.#indexAt(first); ; index++) {
      const range = this.ranges[index];
      if (range === undefined || range.first > last) return new RangeSet(found);
      found.push({
        first: range.first < first ? first : range.first,
        last: range.last > last ? last : range.last,
      });
    }
  }

  /** All numbers, in ascending order. */
  *values(): Generator<bigint, void> {
    for (const { first, last } of this.ranges) {
      for (let value = first; value <= last; value++) yield value;
    }
  }

  /** Index of the first range that does not end before `value`. */
  #indexAt(value: bigint): number {
    let [low, high] = [0, this.ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.ranges[middle] as Range).last < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
