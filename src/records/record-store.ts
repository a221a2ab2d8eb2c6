import { mkdir, readdir, readFile, rename } from "node:fs/promises";
import { basename, join } from "node:path";
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
}

/** A damaged record that was set aside. */
export interface UnreadableRecord {
  readonly file: string;
  readonly reason: string;
  /** What it holds, as far as it could be read. */
  readonly text: string;
}

/** Hears of a change after it was made: what the record was, and what it is. */
export type RecordListener<Body> = (before: Body | undefined, after: Body | undefined) => void;

/** Added to the name of a record file that was set aside. */
const DAMAGED = ".damaged";
const SUFFIX = ".json";
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
  readonly unreadable: readonly UnreadableRecord[];

  private constructor(
    directory: string,
    kind: RecordKind<Body>,
    records: Map<string, Body>,
    unreadable: readonly UnreadableRecord[],
  ) {
    this.#directory = directory;
    this.#kind = kind;
    this.#durable = kind.durable ? new DirectorySync(directory) : undefined;
    this.#records = records;
    this.unreadable = unreadable;
  }

  /**
   * Reads the directory, making it when missing. A damaged record is set aside as `<name>.damaged`, so that the next
   * write of the same record does not destroy the evidence.
   * @throws Failure `record-unreadable` where a record is of a newer version than this release reads
   */
  static async open<Body extends object>(
    directory: string,
    kind: RecordKind<Body>,
  ): Promise<RecordStore<Body>> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await removeTemporaries(directory);
    const records = new Map<string, Body>();
    const unreadable: UnreadableRecord[] = [];
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
   */
  update(name: string, change: (record: Body | undefined) => Body | undefined): Promise<Body | undefined> {
    return this.#changes.run({ key: name, what: "a change" }, async () => {
      const before = this.#records.get(name);
      const body = change(before);
      if (body === undefined) return before;
      await writeRecord(this.#path(name), this.#kind.version, body, {
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
   * Removes; off the disk when it resolves, gone already is fine.
   * @param when asked of the record as all changes before have made it; one of which it is not true stays
   */
  remove(name: string, when?: (record: Body) => boolean): Promise<void> {
    return this.#changes.run({ key: name, what: "a removal" }, async () => {
      const record = this.#records.get(name);
      if (when !== undefined && (record === undefined || !when(record))) return;
      await removeFile(this.#path(name), this.#durable);
      this.#set(name, undefined);
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

/** What one file of a store's directory holds; nothing where it is not a record. */
interface FoundFile<Body extends object> {
  readonly record?: Body;
  readonly unreadable?: UnreadableRecord;
}

async function readOne<Body extends object>(path: string, kind: RecordKind<Body>): Promise<FoundFile<Body>> {
  const file = basename(path);
  if (file.endsWith(DAMAGED)) return unreadable(path, "it was damaged at an earlier start");
  if (file.startsWith(".") || !file.endsWith(SUFFIX)) return {};
  const read = await readRecord(path, kind);
  if (read.kind === "missing") return {};
  if (read.kind === "good") return { record: read.body };
  await rename(path, `${path}${DAMAGED}`);
  return unreadable(`${path}${DAMAGED}`, read.reason);
}

async function unreadable(file: string, reason: string): Promise<FoundFile<never>> {
  return { unreadable: { file, reason, text: await readFile(file, "latin1") } };
}
