import { type FSWatcher, statSync, watch } from "node:fs";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";

/** What to watch and whom to tell. */
export interface ArtefactWatchOptions {
  /** Directories of whose entries some are ours. */
  readonly directories: readonly string[];
  /** An entry came, went or was replaced, ours or not. */
  readonly onChange: () => void;
  readonly logger: Logger;
}

interface Watched {
  readonly inode: number;
  readonly watcher: FSWatcher;
}

/** Watches what is to be there: one inotify watch for each directory, for there are a thousand entries in it. */
export class ArtefactWatch {
  readonly #options: ArtefactWatchOptions;
  readonly #watched = new Map<string, Watched>();
  #isToldOf = false;

  constructor(options: ArtefactWatchOptions) {
    this.#options = options;
  }

  /** Takes up directories that have come, or were replaced, since the last call. */
  follow(): void {
    for (const path of this.#options.directories) {
      const inode = statSync(path, { throwIfNoEntry: false })?.ino;
      const watched = this.#watched.get(path);
      if (watched?.inode === inode) continue;
      watched?.watcher.close();
      this.#watched.delete(path);
      if (inode !== undefined) this.#watch(path, inode);
    }
  }

  close(): void {
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  #watch(path: string, inode: number): void {
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => {
        // Files that are not whole yet are hidden.
        if (name?.startsWith(".") !== true) this.#options.onChange();
      });
      watcher.on("error", (error) => this.#broken(path, error));
      this.#watched.set(path, { inode, watcher });
    } catch (error) {
      this.#broken(path, error);
    }
  }

  #broken(path: string, error: unknown): void {
    this.#watched.get(path)?.watcher.close();
    this.#watched.delete(path);
    if (this.#isToldOf) return;
    this.#isToldOf = true;
    const told = { file: path, reason: describeThrown(error) };
    this.#options.logger.warn(told, "what others remove there is seen at the next pass only");
  }
}
