import { open } from "node:fs/promises";
import { SharedRead } from "../sync/shared-read.ts";

/** Makes changes of one directory's entries survive a power cut; callers of the same time share a wait for the disk. */
export class DirectorySync {
  readonly #flush: SharedRead<void>;

  constructor(path: string) {
    this.#flush = new SharedRead({ read: () => flushDirectory(path) });
  }

  /** Resolves when every change that was made before this call is on disk; rejects where the disk refuses. */
  sync(): Promise<void> {
    return this.#flush.get();
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
