/**
 * Leaves out parts of a list as long as what is left still fails: halves first, single items at last.
 * @param fails is called until it was given `limit` items in all, so that the time is bounded and the result the same each time
 */
export async function shorten<Item>(
  items: readonly Item[],
  limit: number,
  fails: (items: readonly Item[]) => Promise<boolean>,
): Promise<readonly Item[]> {
  let left = items;
  let tried = 0;
  for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < left.length; ) {
      const rest = left.toSpliced(from, size);
      tried += rest.length;
      if (tried > limit) return left;
      if (await fails(rest)) left = rest;
      else from += size;
    }
  }
  return left;
}
