import { stat } from "node:fs/promises";
import { systemCode } from "../failure/failure.ts";
import { watchDirectory } from "../files/watch-directory.ts";
import type { Clock } from "../sync/clock.ts";

/**
 * Tells one socket file from another that took its place. The inode number alone does not: file systems give a
 * freed number to the next file at once.
 */
export async function socketIdentity(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, birthtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs === 0n ? ctimeNs : birthtimeNs}`;
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Which sockets lay in the plugin directory at one moment; undefined where there was none. */
export interface SocketSight {
  readonly own: string | undefined;
  readonly kubelet: string | undefined;
}

/** Looks at both sockets. */
export async function lookAtSockets(paths: {
  readonly ownSocket: string;
  readonly kubeletSocket: string;
}): Promise<SocketSight> {
  const [own, kubelet] = await Promise.all([
    socketIdentity(paths.ownSocket),
    socketIdentity(paths.kubeletSocket),
  ]);
  return { own, kubelet };
}

/** What {@link watchRestarts} needs. */
export interface RestartWatchOptions {
  /** kubelet's plugin directory. */
  readonly directory: string;
  /** Something may have happened: look at the sockets again. */
  readonly onLook: () => void;
  /** The watcher broke; from now on only the poll sees restarts. */
  readonly onError: (error: unknown) => void;
  readonly clock: Clock;
  /** Milliseconds between looks when no event comes. */
  readonly pollMs: number;
}

/** A running watch. */
export interface RestartWatch {
  /** Resolves when events from now on are seen. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

/**
 * Calls `onLook` whenever kubelet may have restarted: at every change in its plugin directory and, because
 * events can be lost or the directory itself replaced, every `pollMs`.
 */
export function watchRestarts(options: RestartWatchOptions): RestartWatch {
  const stop = new AbortController();
  const watch = watchDirectory({
    path: options.directory,
    onChange: options.onLook,
    onError: options.onError,
  });
  const polling = poll(options, stop.signal);
  return {
    ready: watch.ready,
    close: async () => {
      stop.abort();
      await Promise.all([watch.close(), polling]);
    },
  };
}

async function poll(options: RestartWatchOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    // The sleep rejects for one reason only, that the watch is being closed.
    await options.clock.sleep(options.pollMs, signal).catch(() => undefined);
    if (!signal.aborted) options.onLook();
  }
}
