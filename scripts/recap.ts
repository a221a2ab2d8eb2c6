import { stripVTControlCharacters } from "node:util";

/** From here on vitest prints why it failed, and no longer what passed. */
const REASONS = /^⎯+ (Failed|Unhandled) /mu;

const FAILED = /^ FAIL .*$/gmu;

const LENGTH = 3_000;

/**
 * What the end of a long run repeats of a part that failed, so that the reason needs no search in what the parts
 * behind it printed, and is still there where only the last of a log is kept.
 * @param output all that it printed
 * @returns without colours, and not much longer than 3,000 characters: where it is vitest's, the names of what
 *   failed and the first of the reasons, for one failure often brings others; else its last lines
 */
export function recap(output: string): string {
  const text = stripVTControlCharacters(output).trim();
  const reasons = text.search(REASONS);
  if (reasons >= 0) {
    const names = [...new Set(text.match(FAILED) ?? [])].slice(0, 20);
    return [...names, cut(text.slice(reasons), (long) => `${long.slice(0, LENGTH)}\n…`)].join("\n");
  }
  return cut(text, (long) => `…\n${long.slice(-LENGTH)}`);
}

function cut(text: string, shorten: (long: string) => string): string {
  return text.length <= LENGTH ? text : shorten(text);
}
