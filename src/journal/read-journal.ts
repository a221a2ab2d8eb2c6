import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";

// A journal is a directory with one append-only text file of keyed values: a header, then a line for each change.
//   {"journal":1,"version":3}
//   0f8a3b1c {"key":"a","value":{...}}     a value, after the CRC-32 of the JSON text
//   77a01f3e {"key":"a"}                   the key was removed
// The header has no checksum, so that every release can read the versions of a newer one.

/** Version of the lines' format. */
const JOURNAL_VERSION = 1;
/** In a journal's directory: damaged lines that were set aside. */
export const DAMAGED_FILE = "damaged";

const LINE = /^([0-9a-f]{8}) (\{.*\})$/;
const KEY = /"key":("(?:[^"\\]|\\.)*")/g;

/** What a journal's values are. */
export interface JournalFormat<Value> {
  /** The version of the values that this release writes, and the newest that it reads. */
  readonly version: number;
  /** Throws where a value is not of that version. */
  readonly parse: (value: unknown) => Value;
}

/** An entry that could not be read. */
export interface DamagedEntry {
  readonly file: string;
  readonly reason: string;
  readonly text: string;
}

/** What a journal holds. */
export interface JournalContent<Value> {
  /** The last value of each key. */
  readonly values: Map<string, Value>;
  /** Those of this reading, and those that were set aside earlier and whose file is still there. */
  readonly damaged: readonly DamagedEntry[];
}

/** What a journal's file holds. */
interface JournalFile<Value> extends JournalContent<Value> {
  /** Bytes of whole lines. */
  readonly size: number;
  /** Bytes behind them, of an entry whose append was interrupted. */
  readonly unfinished: number;
}

/** The path of a journal's file. */
export function journalPath(directory: string): string {
  return join(directory, "journal");
}

/**
 * Reads a journal and changes nothing: its owner may be writing it. A journal that is not there is empty.
 * @throws Failure `record-unreadable` for a journal of a newer version; what the system says where it cannot be read
 */
export async function readJournal<Value>(
  directory: string,
  format: JournalFormat<Value>,
): Promise<JournalContent<Value>> {
  const { values, damaged } = await readJournalFile(directory, format);
  const earlier = await readDamaged(directory);
  return { values, damaged: [...earlier, ...damaged] };
}

/**
 * Reads a journal's file. A damaged entry voids the earlier value of its key, which it replaced or removed.
 * @throws as {@link readJournal}
 */
export async function readJournalFile<Value>(
  directory: string,
  { version, parse }: JournalFormat<Value>,
): Promise<JournalFile<Value>> {
  const file = journalPath(directory);
  const bytes = await readIfThere(file);
  const size = bytes.lastIndexOf("\n") + 1;
  const values = new Map<string, Value>();
  const damaged: DamagedEntry[] = [];
  const [header, ...entries] = bytes.toString("utf8", 0, size).split("\n").slice(0, -1);
  const problem = header === undefined ? undefined : headerProblem(header, version, file);
  if (header !== undefined && problem !== undefined) damaged.push({ file, reason: problem, text: header });
  for (const line of entries) {
    try {
      const { key, value } = parseLine(line);
      if (value === undefined) values.delete(key);
      else values.set(key, parse(value));
    } catch (error) {
      damaged.push({ file, reason: describeThrown(error), text: line });
      for (const key of legibleKeys(line)) values.delete(key);
    }
  }
  return { values, damaged, size, unfinished: bytes.length - size };
}

/** The entries that were set aside. */
export async function readDamaged(directory: string): Promise<readonly DamagedEntry[]> {
  const file = join(directory, DAMAGED_FILE);
  try {
    // A crash between setting aside and compaction sets the same line aside twice.
    const lines = new Set((await readIfThere(file)).toString().split("\n"));
    lines.delete("");
    return [...lines].map((text) => ({ file, reason: "it was damaged at an earlier start", text }));
  } catch (error) {
    return [{ file, reason: describeThrown(error), text: "" }];
  }
}

/** The header of a journal whose values are of this version. */
export function headerLine(version: number): string {
  return JSON.stringify({ journal: JOURNAL_VERSION, version });
}

/** The line of an entry; without a value it removes the key. */
export function entryLine(key: string, value: unknown): string {
  const text = JSON.stringify({ key, value });
  return `${checksum(text)} ${text}`;
}

function parseLine(line: string): { readonly key: string; readonly value?: unknown } {
  const [, sum, text = ""] = LINE.exec(line) ?? [];
  if (sum !== checksum(text)) throw new Error("its checksum is wrong");
  return JSON.parse(text);
}

/** More than one where the end of a line was damaged. */
function legibleKeys(line: string): readonly string[] {
  return [...line.matchAll(KEY)].flatMap(([, text = ""]) => {
    try {
      return [String(JSON.parse(text))];
    } catch {
      return [];
    }
  });
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/** @throws Failure `record-unreadable` for a newer version */
function headerProblem(text: string, known: number, file: string): string | undefined {
  let header: { readonly journal?: unknown; readonly version?: unknown } | null;
  try {
    header = JSON.parse(text);
  } catch (error) {
    return `the header is damaged: ${describeThrown(error)}`;
  }
  const { journal, version } = header ?? {};
  if (typeof journal !== "number" || typeof version !== "number") return "the header has no version";
  if (journal <= JOURNAL_VERSION && version <= known) return undefined;
  const [found, newest] = journal > JOURNAL_VERSION ? [journal, JOURNAL_VERSION] : [version, known];
  throw new Failure({
    code: "record-unreadable",
    what: `the journal has version ${found}, and this release reads versions up to ${newest}`,
    where: file,
    fix: "run the newer release again; to go back, drain the node, stop the daemon and remove the records directory",
  });
}

async function readIfThere(file: string): Promise<Buffer> {
  return readFile(file).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
}
