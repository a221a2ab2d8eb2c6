import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Range, RangeSet } from "./range-set.ts";

/** Ranges of small numbers, some of them empty, and the numbers that they have, one by one. */
const ranges = fc.array(
  fc
    .record({ first: fc.bigInt(0n, 60n), length: fc.bigInt(-2n, 12n) })
    .map(({ first, length }): Range => ({ first, last: first + length - 1n })),
  { maxLength: 8 },
);
const numbersOf = (list: readonly Range[]): bigint[] => {
  const found: bigint[] = [];
  for (let value = 0n; value < 80n; value++)
    if (list.some(({ first, last }) => first <= value && value <= last)) found.push(value);
  return found;
};
const sets = ranges.map((list) => ({ set: RangeSet.of(list), numbers: numbersOf(list) }));

describe("a set of ranges", () => {
  it("has the numbers of its ranges, each once and in order", () => {
    fc.assert(
      fc.property(sets, ({ set, numbers }) => {
        expect([...set.values()]).toEqual(numbers);
        expect(set.size).toBe(BigInt(numbers.length));
        expect(numbers.map((_, index) => set.at(BigInt(index)))).toEqual(numbers);
        expect([set.at(-1n), set.at(set.size)]).toEqual([undefined, undefined]);
      }),
    );
  });

  it("keeps as few ranges as possible", () => {
    fc.assert(
      fc.property(sets, ({ set, numbers }) => {
        const starts = numbers.filter((value) => !numbers.includes(value - 1n));
        expect(set.ranges.map(({ first }) => first)).toEqual(starts);
      }),
    );
  });

  it("finds a number and the one after it", () => {
    fc.assert(
      fc.property(sets, fc.bigInt(0n, 80n), ({ set, numbers }, value) => {
        expect(set.has(value)).toBe(numbers.includes(value));
        expect(set.firstAtOrAfter(value)).toBe(numbers.find((one) => one >= value));
      }),
    );
  });

  it("is united with another, reduced by it and cut", () => {
    fc.assert(
      fc.property(sets, sets, fc.bigInt(0n, 80n), fc.bigInt(0n, 80n), (one, other, first, last) => {
        expect([...one.set.plus(other.set).values()]).toEqual(
          [...new Set([...one.numbers, ...other.numbers])].sort((a, b) => Number(a - b)),
        );
        expect([...one.set.minus(other.set).values()]).toEqual(
          one.numbers.filter((value) => !other.numbers.includes(value)),
        );
        expect([...one.set.clip({ first, last }).values()]).toEqual(
          one.numbers.filter((value) => first <= value && value <= last),
        );
      }),
    );
  });

  it("counts an IPv6 network exactly", () => {
    const all = RangeSet.of([{ first: 0n, last: (1n << 64n) - 1n }]);
    expect(all.minus(RangeSet.of([{ first: 5n, last: 5n }])).size).toBe(18_446_744_073_709_551_615n);
  });
});
