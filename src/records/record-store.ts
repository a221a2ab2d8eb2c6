import { mkdir, readdir, readFile, rename, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { DirectorySync } from "../files/directory-sync.ts";
import { type RecordFormat, readRecord, writeRecord } from "../files/record-file.ts";
import { removeFile, removeTemporaries } from "../files/replace-file.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";

/** How one kind of record is kept. */
export interface RecordKind<Body extends object> extends RecordFormat<Body> {
  /** Whether its records must survive a power cut, which costs two waits for the disk each time. */
  readonly durable: boolean;
  /** File name without `.json`; decides identity. */
  readonly fileName: (body: Body) => string;
  /** What the body of another release's record tells for sure; undefined where that is nothing. */
  readonly recognise: (body: unknown) => ForeignRecord<Body> | undefined;
}

/** A record file that could not be taken; its file is still on disk. */
export interface UnreadableRecord<Body extends object = object> {
  readonly file: string;
  readonly reason: string;
  /** What it holds, as far as it could be read. */
  readonly text: string;
  /** Whole, and of another release: what it tells of is not this one's to change or to remove. */
  readonly foreign?: ForeignRecord<Body>;
}

/** What is known of a record of another release. */
export interface ForeignRecord<Body extends object> {
  /** As {@link RecordKind.fileName} gives it. */
  readonly name: string;
  /** What all releases say in the same way, where it does; to tell it from others, not to act upon. */
  readonly glimpse?: Body;
}

/** Hears of a change after it was made: what the record was, and what it is. */
export type RecordListener<Body> = (before: Body | undefined, after: Body | undefined) => void;

/** Added to the name of a record file that was set aside. */
const TORN = ".torn";
const SUFFIX = ".json";
/** A string in a JSON text. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;
/** Reading a file is four round trips through Node's thread pool, which has four threads. */
const READ_AT_ONCE = 16;

/**
 * Records of one kind, one file each, held in memory and written through: what is on disk is the truth, and a
 * change shows in memory only after it is on disk. One process owns the directory.
 */
export class RecordStore<Body extends object> {
  readonly #directory: string;
  readonly #kind: RecordKind<Body>;
  readonly #records: Map<string, Body>;
  readonly #durable: DirectorySync | undefined;
  /** Changes of one record reach the disk in the order in which they were asked for. */
  readonly #changes = new KeyedMutex();
  readonly #listeners = new Set<RecordListener<Body>>();
  /** Temporary files of writes in whose middle the disk became read-only. */
  readonly #leftBehind = new Set<string>();
  readonly #foreign: ReadonlyMap<string, UnreadableRecord<Body>>;
  /** All strings in records of another release, as JSON has them. */
  readonly #foreignWords: ReadonlySet<string>;
  readonly unreadable: readonly UnreadableRecord<Body>[];

  private constructor(
    directory: string,
    kind: RecordKind<Body>,
    records: Map<string, Body>,
    unreadable: readonly UnreadableRecord<Body>[],
  ) {
    this.#directory = directory;
    this.#kind = kind;
    this.#durable = kind.durable ? new DirectorySync(directory) : undefined;
    this.#records = records;
    this.unreadable = unreadable;
    this.#foreign = new Map(unreadable.flatMap((one) => (one.foreign ? [[one.foreign.name, one]] : [])));
    this.#foreignWords = new Set(this.foreign.flatMap(({ text }) => text.match(QUOTED) ?? []));
  }

  /**
   * Reads the directory, making it when missing. A torn record is set aside as `<name>.torn`, so that the next
   * write of the same record does not destroy the evidence; one of another release stays where it is and as it is. One
   * under a name that an earlier release gave it gets its present one.
   */
  static async open<Body extends object>(
    directory: string,
    kind: RecordKind<Body>,
  ): Promise<RecordStore<Body>> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await removeTemporaries(directory);
    const records = new Map<string, Body>();
    const unreadable: UnreadableRecord<Body>[] = [];
    const files = (await readdir(directory)).sort();
    for (let from = 0; from < files.length; from += READ_AT_ONCE) {
      const paths = files.slice(from, from + READ_AT_ONCE).map((file) => join(directory, file));
      for (const found of await Promise.all(paths.map((path) => readOne(path, kind)))) {
        if (found.record !== undefined) records.set(kind.fileName(found.record), found.record);
        if (found.unreadable !== undefined) unreadable.push(found.unreadable);
      }
    }
    return new RecordStore(directory, kind, records, unreadable);
  }

  get(name: string): Body | undefined {
    return this.#records.get(name);
  }

  list(): readonly Body[] {
    return [...this.#records.values()];
  }

  /** The records of another release, which neither {@link get} nor {@link list} gives and which cannot be changed. */
  get foreign(): readonly UnreadableRecord<Body>[] {
    return [...this.#foreign.values()];
  }

  /** The record of another release that has this name. */
  getForeign(name: string): UnreadableRecord<Body> | undefined {
    return this.#foreign.get(name);
  }

  /** Whether a record of another release has this string in it, as a name of what it speaks of. */
  isNamedByForeign(word: string): boolean {
    return this.#foreignWords.has(JSON.stringify(word));
  }

  /** {@link list}, and of the records of another release what they seem to say: for who compares, not for who acts. */
  listWithForeign(): readonly Body[] {
    return [...this.list(), ...this.foreign.flatMap(({ foreign }) => foreign?.glimpse ?? [])];
  }

  /** Calls `listener` after every change, until the returned function is called. */
  subscribe(listener: RecordListener<Body>): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Adds or replaces; on disk when it resolves. */
  async put(body: Body): Promise<void> {
    await this.update(this.#kind.fileName(body), () => body);
  }

  /**
   * Replaces a record by what `change` makes of it; undefined leaves all as it is.
   * @param change is given what all changes asked for before have made of it
   * @returns the record as it is then
   * @throws Failure record-unreadable where it would replace one of another release
   */
  update(name: string, change: (record: Body | undefined) => Body | undefined): Promise<Body | undefined> {
    return this.#changes.run({ key: name, what: "a change" }, async () => {
      const before = this.#records.get(name);
      const body = change(before);
      if (body === undefined) return before;
      this.#refuseForeign(name);
      await writeRecord(this.#path(name), this.#kind.written, body, {
        durable: this.#durable,
        leftBehind: (temporary) => this.#leftBehind.add(temporary),
      });
      this.#set(name, body);
      return body;
    });
  }

  /**
   * Changes a record in memory alone, for when the disk does not take it: full, or read-only. What the disk has
   * comes back with the next start.
   */
  updateInMemory(name: string, change: (record: Body) => Body): void {
    const record = this.#records.get(name);
    if (record !== undefined) this.#set(name, change(record));
  }

  /**
   * Removes; off the disk when it resolves, gone already is fine. One of another release stays.
   * @param when asked of the record as all changes before have made it; one of which it is not true stays
   */
  remove(name: string, when?: (record: Body) => boolean): Promise<void> {
    return this.#changes.run({ key: name, what: "a removal" }, async () => {
      const record = this.#records.get(name);
      if (when !== undefined && (record === undefined || !when(record))) return;
      if (this.#foreign.has(name)) return;
      await removeFile(this.#path(name), this.#durable);
      this.#set(name, undefined);
    });
  }

  #refuseForeign(name: string): void {
    const there = this.#foreign.get(name);
    if (there === undefined) return;
    throw new Failure({
      code: "record-unreadable",
      what: `a record of another release is there: ${there.reason}`,
      where: there.file,
      fix: "let the release run again that wrote it; docs/upgrade.md says more",
    });
  }

  /** Removes what failed writes had to leave; throws while the disk does not let go of it. */
  async sweep(): Promise<void> {
    for (const temporary of this.#leftBehind) {
      await removeFile(temporary);
      this.#leftBehind.delete(temporary);
    }
  }

  #set(name: string, after: Body | undefined): void {
    const before = this.#records.get(name);
    if (after === undefined) this.#records.delete(name);
    else this.#records.set(name, after);
    for (const listener of this.#listeners) listener(before, after);
  }

  #path(name: string): string {
    return join(this.#directory, `${name}${SUFFIX}`);
  }
}

/** What one file of a store's directory turned out to be; neither where it is none of ours. */
interface FoundFile<Body extends object> {
  readonly record?: Body;
  readonly unreadable?: UnreadableRecord<Body>;
}

async function readOne<Body extends object>(path: string, kind: RecordKind<Body>): Promise<FoundFile<Body>> {
  const file = basename(path);
  if (file.endsWith(TORN)) {
    const whole = await readRecord(path, kind);
    // The first releases set those aside, too, that were whole and said what they did not know.
    if (whole.kind === "good") return settleName(path, whole.body, kind);
    return { unreadable: await unreadableRecord(path, "it was torn at an earlier start") };
  }
  if (file.startsWith(".") || !file.endsWith(SUFFIX)) return {};
  const read = await readRecord(path, kind);
  switch (read.kind) {
    case "good":
      return settleName(path, read.body, kind);
    case "missing":
      return {};
    case "foreign": {
      const foreign = kind.recognise(read.body) ?? { name: file.slice(0, -SUFFIX.length) };
      return { unreadable: { ...(await unreadableRecord(path, read.reason)), foreign } };
    }
    case "torn":
      await rename(path, `${path}${TORN}`);
      return { unreadable: await unreadableRecord(`${path}${TORN}`, read.reason) };
  }
}

/** Under the name of an earlier release a record would not be found by who removes it, and come back at every start. */
async function settleName<Body extends object>(
  path: string,
  record: Body,
  kind: RecordKind<Body>,
): Promise<FoundFile<Body>> {
  const settled = join(dirname(path), `${kind.fileName(record)}${SUFFIX}`);
  if (settled === path) return { record };
  if (await stat(settled).then(() => true, isMissing)) {
    return { unreadable: await unreadableRecord(path, `${basename(settled)} has its record`) };
  }
  await rename(path, settled);
  return { record };
}

function isMissing(error: unknown): false {
  if (systemCode(error) !== "ENOENT") throw error;
  return false;
}

async function unreadableRecord(file: string, reason: string): Promise<UnreadableRecord<never>> {
  return { file, reason, text: await readFile(file, "latin1") };
}
