import { setImmediate as nextTick } from "node:timers/promises";

/** Maps a list, and lets other work of the process run after each `size` items. */
export async function mapInChunks<Item, Result>(
  items: Iterable<Item>,
  size: number,
  map: (item: Item) => Result,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const item of items) {
    if (results.length > 0 && results.length % size === 0) await nextTick();
    results.push(map(item));
  }
  return results;
}
