/** The middle of what was measured, and what all but one in twenty stayed at or below. */
export interface Spread {
  readonly median: number;
  readonly p95: number;
}

/** Median (mean of the middle two of an even number) and 95th percentile (nearest rank). */
export function spreadOf(samples: readonly number[]): Spread {
  const sorted = [...samples].sort((left, right) => left - right);
  const at = (index: number): number => {
    const value = sorted[index];
    if (value === undefined) throw new RangeError("nothing was measured");
    return value;
  };
  const middle = (sorted.length - 1) / 2;
  return {
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    p95: at(Math.ceil(sorted.length * 0.95) - 1),
  };
}
