import { watch } from "chokidar";

/** What to watch. */
export interface WatchDirectoryOptions {
  readonly path: string;
  /**
   * Something in the directory may have changed: look again. Never called with what it was, because a file that
   * is deleted and made anew at once is reported as a mere change, or twice, or late.
   */
  readonly onChange: () => void;
  /** The watcher broke, for example out of inotify watches; the caller's slow poll must do. */
  readonly onError: (error: unknown) => void;
}

/** A running watch. */
export interface DirectoryWatch {
  /** Resolves when changes from now on are seen. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

/**
 * Watches the entries of one directory (not its sub-directories). Nothing is reported of a directory that does
 * not exist when the watch begins: the caller's slow poll must do.
 */
export function watchDirectory(options: WatchDirectoryOptions): DirectoryWatch {
  const watcher = watch(options.path, {
    depth: 0,
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    ignorePermissionErrors: true,
  });
  watcher.on("all", () => options.onChange());
  // chokidar swallows some events of sockets that come and go between its own looks; the kernel's do not lie.
  watcher.on("raw", () => options.onChange());
  watcher.on("error", options.onError);
  return {
    ready: new Promise((resolve) => watcher.once("ready", () => resolve())),
    close: () => watcher.close(),
  };
}
