import { type FSWatcher, watch } from "node:fs";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { fileIdentity } from "./file-identity.ts";

/** What to watch and whom to tell. */
export interface ArtefactWatchOptions {
  /** Directories of whose entries some are ours. */
  readonly directories: readonly string[];
  /** An entry came, went or was replaced, ours or not. */
  readonly onChange: () => void;
  readonly logger: Logger;
}

interface Watched {
  /** {@link fileIdentity} */
  readonly identity: string;
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
      const identity = fileIdentity(path);
      const watched = this.#watched.get(path);
      if (watched?.identity === identity) continue;
      watched?.watcher.close();
      this.#watched.delete(path);
      if (identity !== undefined) this.#watch(path, identity);
    }
  }

  close(): void {
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  #watch(path: string, identity: string): void {
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => {
        // Files that are not whole yet are hidden.
        if (name?.startsWith(".") !== true) this.#options.onChange();
      });
      watcher.on("error", (error) => this.#broken(path, error));
      this.#watched.set(path, { identity, watcher });
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
