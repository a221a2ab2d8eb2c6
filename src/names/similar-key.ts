/** Shorter keys are mistyped by one letter at most: of two, half of them would be another word. */
const SHORT_KEY = 5;

/**
 * The key that was probably meant: within an edit distance of 2 (1 for short keys), where case does not count and two
 * letters that changed places are one edit. Undefined where no key is so similar.
 */
export function similarKey(written: string, keys: Iterable<string>): string | undefined {
  const found = [...keys]
    .filter((key) => Math.abs(key.length - written.length) <= 2)
    .map((key) => ({ key, distance: editDistance(written.toLowerCase(), key.toLowerCase()) }))
    .filter(({ key, distance }) => distance <= (key.length <= SHORT_KEY ? 1 : 2));
  return found.sort((one, other) => one.distance - other.distance)[0]?.key;
}

/** Letters to insert, remove, replace or swap (optimal string alignment). */
function editDistance(one: string, other: string): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? Number.POSITIVE_INFINITY;
  for (let row = 1; row <= one.length; row++) {
    rows[row] = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      (rows[row] as number[])[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  }
  return at(one.length, other.length);
}
