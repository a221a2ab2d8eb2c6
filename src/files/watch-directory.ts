import { statSync } from "node:fs";
import { resolve } from "node:path";
import { FSWatcher } from "chokidar";
import { type Clock, systemClock } from "../sync/clock.ts";

/** Milliseconds between two checks that the directory is still the one that is watched. */
const CHECK_MS = 1_000;

/** What to watch. */
export interface WatchDirectoryOptions {
  /** It need not exist, and may be removed, made again, or mounted over. */
  readonly path: string;
  /**
   * An entry of the directory may have changed, or the directory itself: look again. Hidden entries do not count: they
   * are files that are still being written. Not called with the entry: the kernel merges and reorders events.
   */
  readonly onChange: () => void;
  /** Changes are not seen for now, for example for want of inotify watches; the caller's slow poll must do. */
  readonly onError: (error: unknown) => void;
  readonly clock?: Clock;
}

/** A running watch. */
export interface DirectoryWatch {
  /** Resolves when changes from now on are seen, or cannot be. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

interface Watched {
  /** {@link fileIdentity} */
  readonly identity: string;
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

/** Watches the entries of one directory, not its sub-directories, with one inotify watch however many there are. */
export function watchDirectory(options: WatchDirectoryOptions): DirectoryWatch {
  const { onChange, onError, clock = systemClock } = options;
  const path = resolve(options.path);
  const stop = new AbortController();
  let watched: Watched | undefined;
  let isBroken = false;
  const fail = (error: unknown) => {
    if (!isBroken && !stop.signal.aborted) onError(error);
    isBroken = true;
  };
  const check = async () => {
    const identity = fileIdentity(path);
    if (watched?.identity === identity && !isBroken) return false;
    await watched?.close();
    const wasBroken = isBroken;
    isBroken = false;
    watched = undefined;
    if (identity === undefined || stop.signal.aborted) return true;
    watched = watchOnce(path, identity, onChange, (error) => {
      if (wasBroken) isBroken = true;
      else fail(error);
    });
    await watched.ready;
    return !wasBroken;
  };
  const first = check();
  const checking = (async () => {
    await first;
    while (!stop.signal.aborted) {
      await clock.sleep(CHECK_MS, stop.signal).catch(() => undefined);
      if (!stop.signal.aborted && (await check())) onChange();
    }
  })();
  return {
    ready: first.then(() => undefined),
    async close() {
      stop.abort();
      await checking;
      await watched?.close();
    },
  };
}

/**
 * Without chokidar's reads of the directory, one at each second with changes and an lstat of every entry: in a burst of
 * Allocates they would keep the threads busy that write its records.
 */
class UnreadDirectoryWatcher extends FSWatcher {
  override _readdirp(): undefined {}
}

function watchOnce(
  path: string,
  identity: string,
  onChange: () => void,
  onError: (error: unknown) => void,
): Watched {
  const ready = Promise.withResolvers<void>();
  // Else chokidar shares one watch for a path, that of a directory that is gone as well.
  const watcher = new UnreadDirectoryWatcher({ depth: 0, persistent: false });
  // The kernel's own events: of sockets that come and go between two looks of its own chokidar reports nothing.
  watcher.on("raw", (_event, entry) => {
    if (!entry?.startsWith(".")) onChange();
  });
  watcher.on("ready", ready.resolve);
  watcher.on("error", (error) => {
    onError(error);
    ready.resolve();
  });
  watcher.add(path);
  return { identity, ready: ready.promise, close: () => watcher.close() };
}

/**
 * Distinguishes a file from one that replaced it; undefined where no file exists. With the device, because the
 * topmost directory of every tmpfs has the same inode number.
 */
function fileIdentity(path: string): string | undefined {
  const status = statSync(path, { throwIfNoEntry: false });
  return status && `${status.dev}:${status.ino}`;
}
