import { open } from "node:fs/promises";

/**
 * Makes changes of one directory's entries survive a power cut. Waiting for the disk takes milliseconds, so those who
 * ask while a wait is under way share the next one.
 */
export class DirectorySync {
  readonly #path: string;
  readonly #flush: (path: string) => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  /** Asked for and not begun, so that it covers what was changed until now. */
  #next: Promise<void> | undefined;

  /** @param flush waits for the disk; for tests */
  constructor(path: string, flush: (path: string) => Promise<void> = flushDirectory) {
    this.#path = path;
    this.#flush = flush;
  }

  /** Resolves when every change that was made before this call is on disk; rejects where the disk refuses. */
  sync(): Promise<void> {
    this.#next ??= this.#afterRunning();
    return this.#next;
  }

  async #afterRunning(): Promise<void> {
    // What became of it its own callers are told.
    await this.#running.catch(() => undefined);
    // From here on callers may be too late for this one.
    this.#next = undefined;
    this.#running = this.#flush(this.#path);
    await this.#running;
  }
}

async function flushDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
