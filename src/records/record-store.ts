import * as z from "zod";
import { Journal } from "../journal/journal.ts";
import {
  type DamagedEntry,
  type JournalContent,
  type JournalFormat,
  readJournal,
} from "../journal/read-journal.ts";
import type { Logger } from "../logging/logger.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";

/** One kind of record. */
export interface RecordKind<Body extends object> {
  /** Version of the shape that `schema` describes; docs/upgrade.md says when it changes. */
  readonly version: number;
  readonly schema: z.ZodType<Body>;
  /** Whether its records must survive a power cut, which costs a wait for the disk each time. */
  readonly durable: boolean;
  /** The name of a record decides its identity. */
  readonly nameOf: (body: Body) => string;
}

/** Called after a change, with what the record was and what it is. */
type RecordListener<Body> = (before: Body | undefined, after: Body | undefined) => void;

/** Records of one kind, in memory and in a journal. A change shows in memory only after it is on disk. */
export class RecordStore<Body extends object> {
  readonly #journal: Journal<Body>;
  readonly #kind: RecordKind<Body>;
  readonly #records: Map<string, Body>;
  /** Changes of one record reach the disk in the order in which they were asked for. */
  readonly #changes = new KeyedMutex();
  readonly #listeners = new Set<RecordListener<Body>>();
  /** Records that were damaged on disk; the others are used without them. */
  readonly unreadable: readonly DamagedEntry[];

  private constructor(kind: RecordKind<Body>, journal: Journal<Body>, content: JournalContent<Body>) {
    this.#kind = kind;
    this.#journal = journal;
    this.#records = content.values;
    this.unreadable = content.damaged;
  }

  /**
   * Reads the records of a directory, making it where it is missing. One process at a time may have it open.
   * @throws Failure `record-unreadable` where they are of a newer version than this release reads
   */
  static async open<Body extends object>(
    directory: string,
    kind: RecordKind<Body>,
    logger: Logger,
  ): Promise<RecordStore<Body>> {
    const options = { directory, logger, durable: kind.durable, ...formatOf(kind) };
    const { journal, content } = await Journal.open(options);
    return new RecordStore(kind, journal, content);
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

  /**
   * Adds or replaces; on disk when it resolves.
   * @throws Failure `record-unwritable`
   */
  async put(body: Body): Promise<void> {
    await this.update(this.#kind.nameOf(body), () => body);
  }

  /**
   * Replaces a record by what `change` makes of it; undefined leaves it unchanged.
   * @param change is given what all changes asked for before have made of it
   * @param whenUnwritable whether a change that the disk refuses, full or read-only, is dropped or made in memory alone;
   *   the next start finds what the disk has
   * @returns the record afterwards
   * @throws Failure `record-unwritable`
   */
  update(
    name: string,
    change: (record: Body | undefined) => Body | undefined,
    whenUnwritable: "throw" | "keep in memory" = "throw",
  ): Promise<Body | undefined> {
    return this.#changes.run({ key: name, what: "a change" }, async () => {
      const before = this.#records.get(name);
      const body = change(before);
      if (body === undefined) return before;
      await this.#journal.append(name, body).catch((error: unknown) => {
        if (whenUnwritable === "throw") throw error;
      });
      this.#set(name, body);
      return body;
    });
  }

  /** Changes a record in memory alone: at once, or after the changes of it that are being written. */
  updateInMemory(name: string, change: (record: Body) => Body): void {
    void this.#changes.run({ key: name, what: "a change in memory" }, async () => {
      const record = this.#records.get(name);
      if (record !== undefined) this.#set(name, change(record));
    });
  }

  /**
   * Removes a record; off the disk when it resolves, already gone is fine.
   * @param when asked of the record as all changes before have made it; one of which it is not true stays
   * @throws Failure `record-unwritable`
   */
  remove(name: string, when?: (record: Body) => boolean): Promise<void> {
    return this.#changes.run({ key: name, what: "a removal" }, async () => {
      const record = this.#records.get(name);
      if (record === undefined || when?.(record) === false) return;
      await this.#journal.append(name, undefined);
      this.#set(name, undefined);
    });
  }

  #set(name: string, after: Body | undefined): void {
    const before = this.#records.get(name);
    if (after === undefined) this.#records.delete(name);
    else this.#records.set(name, after);
    for (const listener of this.#listeners) listener(before, after);
  }
}

/** Reads the records of a directory and changes nothing: the daemon, which owns them, may be running. */
export function readRecordsOf<Body extends object>(directory: string, kind: RecordKind<Body>) {
  return readJournal(directory, formatOf(kind));
}

function formatOf<Body extends object>({ version, schema }: RecordKind<Body>): JournalFormat<Body> {
  return {
    version,
    parse: (value) => {
      const { success, data, error } = schema.safeParse(value);
      if (!success) throw new Error(z.prettifyError(error).replaceAll("\n", " "));
      return data;
    },
  };
}
