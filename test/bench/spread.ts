/** The middle of what was measured, and what all but one in twenty, or in a hundred, stayed at or below. */
export interface Spread {
  readonly median: number;
  readonly p95: number;
  readonly p99: number;
}

/** What so many of a hundred stayed at or below (nearest rank). */
function percentileOf(samples: readonly number[], percent: number): number {
  const sorted = [...samples].sort((left, right) => left - right);
  const value = sorted[Math.ceil((sorted.length * percent) / 100) - 1];
  if (value === undefined) throw new RangeError("nothing was measured");
  return value;
}

/** Median (mean of the middle two of an even number), 95th and 99th percentile (nearest rank). */
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
    p95: percentileOf(samples, 95),
    p99: percentileOf(samples, 99),
  };
}
