import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { readRecord, writeRecord } from "../durable-file/record-file.ts";
import { removeFileDurably, removeTemporaries } from "../durable-file/replace-file.ts";

/** How one kind of record is kept. */
export interface RecordKind<Body extends object> {
  readonly version: number;
  readonly schema: z.ZodType<Body>;
  /** File name without `.json`; decides identity. */
  readonly fileName: (body: Body) => string;
}

/** A record file that could not be taken; its file is still on disk. */
export interface UnreadableRecord {
  readonly file: string;
  readonly reason: string;
}

/**
 * Records of one kind, one file each, held in memory and written through: what is on disk is the truth, and a
 * change shows in memory only after it is durable. One process owns the directory.
 */
export class RecordStore<Body extends object> {
  readonly #directory: string;
  readonly #kind: RecordKind<Body>;
  readonly #records: Map<string, Body>;
  readonly unreadable: readonly UnreadableRecord[];

  private constructor(
    directory: string,
    kind: RecordKind<Body>,
    records: Map<string, Body>,
    unreadable: readonly UnreadableRecord[],
  ) {
    this.#directory = directory;
    this.#kind = kind;
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
    for (const file of (await readdir(directory)).sort()) {
      if (file.startsWith(".") || !file.endsWith(".json")) continue;
      const path = join(directory, file);
      const read = await readRecord(path, kind.version, kind.schema);
      if (read.kind === "good") records.set(kind.fileName(read.body), read.body);
      if (read.kind === "newer") unreadable.push({ file: path, reason: `version ${read.version} is newer` });
      if (read.kind === "torn") {
        await rename(path, `${path}.torn`);
        unreadable.push({ file: `${path}.torn`, reason: read.reason });
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

  /** Adds or replaces; durable when it resolves. */
  async put(body: Body): Promise<void> {
    const name = this.#kind.fileName(body);
    await writeRecord(this.#path(name), this.#kind.version, body);
    this.#records.set(name, body);
  }

  /** Removes; durable when it resolves, gone already is fine. */
  async remove(name: string): Promise<void> {
    await removeFileDurably(this.#path(name));
    this.#records.delete(name);
  }

  #path(name: string): string {
    return join(this.#directory, `${name}.json`);
  }
}
