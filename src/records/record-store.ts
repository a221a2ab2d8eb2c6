import { mkdir, readdir, readFile, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import type { z } from "zod";
import { DirectorySync } from "../durable-file/directory-sync.ts";
import { readRecord, writeRecord } from "../durable-file/record-file.ts";
import { removeFile, removeTemporaries } from "../durable-file/replace-file.ts";
import { OneAtATime } from "../turns/one-at-a-time.ts";

/** How one kind of record is kept. */
export interface RecordKind<Body extends object> {
  readonly version: number;
  readonly schema: z.ZodType<Body>;
  /** Whether its records must survive a power cut, which costs two waits for the disk each time. */
  readonly durable: boolean;
  /** File name without `.json`; decides identity. */
  readonly fileName: (body: Body) => string;
}

/** A record file that could not be taken; its file is still on disk. */
export interface UnreadableRecord {
  readonly file: string;
  readonly reason: string;
  /** What it holds, as far as it could be read. */
  readonly text: string;
}

/** Hears of a change after it was made: what the record was, and what it is. */
export type RecordListener<Body> = (before: Body | undefined, after: Body | undefined) => void;

/** Added to the name of a record file that was set aside. */
const TORN = ".torn";
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
  readonly #changes = new OneAtATime();
  readonly #listeners = new Set<RecordListener<Body>>();
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
   * Reads the directory, making it when missing. A torn record is set aside as `<name>.torn`, so that the next
   * write of the same record does not destroy the evidence; a newer one stays where it is.
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
      await writeRecord(this.#path(name), this.#kind.version, body, this.#durable);
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

  #set(name: string, after: Body | undefined): void {
    const before = this.#records.get(name);
    if (after === undefined) this.#records.delete(name);
    else this.#records.set(name, after);
    for (const listener of this.#listeners) listener(before, after);
  }

  #path(name: string): string {
    return join(this.#directory, `${name}.json`);
  }
}

/** What one file of a store's directory turned out to be; neither where it is none of ours. */
interface FoundFile<Body> {
  readonly record?: Body;
  readonly unreadable?: UnreadableRecord;
}

async function readOne<Body extends object>(path: string, kind: RecordKind<Body>): Promise<FoundFile<Body>> {
  const file = basename(path);
  if (file.endsWith(TORN)) {
    return { unreadable: await unreadableRecord(path, "it was torn at an earlier start") };
  }
  if (file.startsWith(".") || !file.endsWith(".json")) return {};
  const read = await readRecord(path, kind.version, kind.schema);
  switch (read.kind) {
    case "good":
      return { record: read.body };
    case "missing":
      return {};
    case "newer":
      return { unreadable: await unreadableRecord(path, `version ${read.version} is newer`) };
    case "torn":
      await rename(path, `${path}${TORN}`);
      return { unreadable: await unreadableRecord(`${path}${TORN}`, read.reason) };
  }
}

async function unreadableRecord(file: string, reason: string): Promise<UnreadableRecord> {
  return { file, reason, text: await readFile(file, "latin1") };
}
