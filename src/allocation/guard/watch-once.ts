import { type FSWatcher, watch } from "node:fs";

/** Watches one directory's inode until something happens. */
export interface Watch {
  close(): void;
}

/**
 * Calls `onEvent` once, at the first change in a directory, and stops watching before it does: a pod that makes
 * events as fast as it can would else keep the event loop busy with them for ever. One inotify watch per directory,
 * not one per entry, so that entries cost nothing. @throws ENOSPC, EMFILE when the kernel has no more watches
 */
export function watchOnce(path: string, onEvent: () => void): Watch {
  const watcher: FSWatcher = watch(path, { persistent: false }, () => {
    watcher.close();
    onEvent();
  });
  watcher.on("error", () => {
    watcher.close();
    onEvent();
  });
  return { close: () => watcher.close() };
}
