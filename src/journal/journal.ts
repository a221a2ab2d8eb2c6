import { appendFile, type FileHandle, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import { syncDirectory } from "../files/replace-file.ts";
import type { Logger } from "../logging/logger.ts";
import {
  DAMAGED_FILE,
  type DamagedEntry,
  entryLine,
  headerLine,
  type JournalContent,
  type JournalFormat,
  journalPath,
  readDamaged,
  readJournalFile,
} from "./read-journal.ts";

const COMPACT_ABOVE_BYTES = 256 * 1024;

/** How a journal is kept. */
export interface JournalOptions<Value> extends JournalFormat<Value> {
  readonly directory: string;
  /** Whether an appended value must survive a power cut; it always survives a crash of the process. */
  readonly durable: boolean;
  readonly logger: Logger;
  /** Bytes up to which the file is never compacted; default 256 KiB. */
  readonly compactAbove?: number;
}

interface Append<Value> {
  readonly key: string;
  readonly value: Value | undefined;
  readonly done: PromiseWithResolvers<void>;
}

/**
 * Keyed values on disk, appended to one file that is compacted while it is used; read-journal.ts has the format. One
 * process at a time may have a journal open. Appends that arrive while the disk is busy share the next write and its
 * fdatasync.
 */
export class Journal<Value> {
  readonly #options: JournalOptions<Value>;
  readonly #path: string;
  /** What the file has. The values are the owner's own objects, so this costs no second copy of them. */
  #values = new Map<string, Value>();
  /** Damaged entries that are still in the file. */
  #damaged: readonly DamagedEntry[] = [];
  /** Bytes of whole lines; what is behind them a failed append has left. 0 where the file is yet to be made. */
  #size = 0;
  #compactAbove: number;
  /** Whether a power cut may bring back the file that this one replaced, as an earlier process perhaps left it. */
  #isNameUnsynced = true;
  #isWriting = false;
  readonly #waiting: Append<Value>[] = [];

  private constructor(options: JournalOptions<Value>) {
    this.#options = options;
    this.#path = journalPath(options.directory);
    this.#compactAbove = options.compactAbove ?? COMPACT_ABOVE_BYTES;
  }

  /**
   * Opens a journal, making it where it is missing, and reads it. An unfinished entry at the end is dropped; a damaged one
   * is set aside in the file `damaged`. A disk that cannot be written is no error until something is appended.
   * @throws Failure `record-unreadable` for a journal of a newer version; what the system says where it cannot be read
   */
  static async open<Value>(
    options: JournalOptions<Value>,
  ): Promise<{ readonly journal: Journal<Value>; readonly content: JournalContent<Value> }> {
    const { directory, logger } = options;
    const journal = new Journal(options);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const odd = await setOddFileAside(journal.#path);
    const file = await readJournalFile(directory, options);
    const earlier = await readDamaged(directory);
    journal.#size = file.size;
    journal.#values = file.values;
    journal.#damaged = file.damaged;
    if (file.unfinished > 0) {
      logger.warn({ file: journal.#path, bytes: file.unfinished }, "an unfinished record is dropped");
    }
    let found = file.damaged;
    try {
      await rm(journal.#newPath(), { force: true });
      if (file.size === 0 || file.damaged.length > 0) await journal.#compact();
      // The file that an administrator removes is that one, never the journal.
      found = found.map((entry) => ({ ...entry, file: join(directory, DAMAGED_FILE) }));
    } catch (error) {
      logger.error({ file: journal.#path, reason: describeThrown(error) }, "a journal cannot be written");
    }
    const damaged = [...odd, ...earlier, ...found];
    return { journal, content: { values: new Map(file.values), damaged } };
  }

  /**
   * Sets the value of a key, or removes the key where no value is given. On disk when it resolves.
   * @throws Failure `record-unwritable` where the disk refuses; the journal is as before then
   */
  append(key: string, value: Value | undefined): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ key, value, done });
    if (!this.#isWriting) void this.#writeWaiting();
    return done.promise;
  }

  async #writeWaiting(): Promise<void> {
    this.#isWriting = true;
    // Appends of the same moment share the first write too.
    await undefined;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        await this.#write(batch.map(({ key, value }) => `${entryLine(key, value)}\n`).join(""));
        for (const { key, value, done } of batch) {
          if (value === undefined) this.#values.delete(key);
          else this.#values.set(key, value);
          done.resolve();
        }
      } catch (error) {
        const failure = unwritable(this.#path, error);
        for (const { done } of batch) done.reject(failure);
      }
      if (this.#size > this.#compactAbove) await this.#compactGrown();
    }
    this.#isWriting = false;
  }

  async #write(lines: string): Promise<void> {
    if (this.#size === 0) await this.#compact();
    // Open only while it is written: else its file system could not become read-only.
    const file = await open(this.#path, "r+");
    try {
      const found = (await file.stat()).size;
      if (found < this.#size) throw new Error(`it has ${found} bytes instead of ${this.#size}`);
      if (found > this.#size) await file.truncate(this.#size);
      const bytes = Buffer.from(lines);
      await writeAll(file, bytes, this.#size);
      if (this.#options.durable) await file.datasync();
      if (this.#options.durable && this.#isNameUnsynced) await this.#syncName();
      this.#size += bytes.length;
    } catch (error) {
      // Where this fails as well, the next append does it.
      await file.truncate(this.#size).catch(() => undefined);
      throw error;
    } finally {
      await file.close();
    }
  }

  async #compactGrown(): Promise<void> {
    try {
      await this.#compact();
    } catch (error) {
      const reason = describeThrown(error);
      this.#options.logger.warn({ file: this.#path, reason }, "a journal cannot be compacted");
    }
    this.#compactAbove = Math.max(this.#compactAbove, this.#size * 4);
  }

  /** Leaves one line for each key, and sets damaged ones aside. Appends wait meanwhile. */
  async #compact(): Promise<void> {
    if (this.#damaged.length > 0) await this.#setAside(this.#damaged);
    this.#damaged = [];
    await this.#replace([...this.#values].map(([key, value]) => entryLine(key, value)));
  }

  async #setAside(damaged: readonly DamagedEntry[]): Promise<void> {
    const file = join(this.#options.directory, DAMAGED_FILE);
    const text = damaged.map((entry) => `${entry.text}\n`).join("");
    await appendFile(file, text, { mode: 0o600, flush: true });
  }

  /** Replaces the file in one step: a crash leaves the old one or the new one. */
  async #replace(lines: readonly string[]): Promise<void> {
    const path = this.#newPath();
    const bytes = Buffer.from([headerLine(this.#options.version), ...lines, ""].join("\n"));
    try {
      const file = await open(path, "w", 0o600);
      try {
        await writeAll(file, bytes, 0);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(path, this.#path);
    } catch (error) {
      await rm(path, { force: true }).catch(() => undefined);
      throw error;
    }
    this.#size = bytes.length;
    this.#isNameUnsynced = true;
    await this.#syncName();
  }

  async #syncName(): Promise<void> {
    await syncDirectory(this.#options.directory);
    this.#isNameUnsynced = false;
  }

  /** Where a compaction writes, before the file takes the journal's place. */
  #newPath(): string {
    return `${this.#path}.new`;
  }
}

/** What is not a file cannot be read as a journal; it must not stop the start. */
async function setOddFileAside(path: string): Promise<readonly DamagedEntry[]> {
  const isOdd = await stat(path).then(
    (found) => !found.isFile(),
    (error: unknown) => systemCode(error) === "ELOOP",
  );
  if (!isOdd) return [];
  const file = `${path}.odd-${Date.now()}`;
  await rename(path, file);
  return [{ file, reason: "it is not a file", text: "" }];
}

async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    written += (await file.write(bytes, written, bytes.length - written, position + written)).bytesWritten;
  }
}

function unwritable(path: string, error: unknown): Failure {
  return new Failure({
    code: "record-unwritable",
    what: `the record cannot be written: ${describeThrown(error)}`,
    where: path,
    fix: "free space on the file system, or make it writable",
    cause: error,
  });
}
