import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { entryLine, headerLine, journalPath } from "../../../src/journal/read-journal.ts";

/** Writes a journal of a version whole, as a release might have left it. */
export async function writeJournal(
  directory: string,
  version: number,
  values: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const lines = Object.entries(values).map(([key, value]) => entryLine(key, value));
  const path = journalPath(directory);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, [headerLine(version), ...lines, ""].join("\n"), { mode: 0o600 });
}

/** Removes a key, as the owner of the journal would. */
export function removeFromJournal(directory: string, key: string): Promise<void> {
  return appendFile(journalPath(directory), `${entryLine(key, undefined)}\n`);
}

/** Replaces each entry's line; none may be written meanwhile. */
export async function changeEntries(directory: string, change: (line: string) => string): Promise<void> {
  const path = journalPath(directory);
  const [header = "", ...lines] = (await readFile(path, "utf8")).trimEnd().split("\n");
  await writeFile(path, [header, ...lines.map(change), ""].join("\n"));
}
