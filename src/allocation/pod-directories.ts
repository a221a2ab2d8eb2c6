import { type Dirent, type FSWatcher, lstatSync, watch } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { Clock } from "../sync/clock.ts";
import { SOCKET_FILE } from "./layout.ts";
import { nameBytes, type OpenDirectory, openDirectory } from "./open-directory.ts";
import { isSetAside, removeSetAside } from "./set-aside.ts";
import { giveSocketToGroup, isSocketClosed } from "./socket-access.ts";

/** What the watch works with. */
export interface PodDirectoriesOptions {
  /** Host directory of all allocations. */
  readonly root: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The root, an allocation's directory, or a directory of an interface or device in it. */
interface Place {
  readonly parent: Place | undefined;
  /** One character for each byte, as {@link OpenDirectory.list} gives it; empty for the root. */
  readonly name: string;
  readonly children: Map<string, Place>;
  watch: FSWatcher | undefined;
  /** Its time of modification when it was read; undefined where a later change could have the same. */
  readAtMtime: number | undefined;
  state: "idle" | "changed" | "due" | "gone";
  /** Changes since it was quiet, and when the last one was (milliseconds, monotonic). */
  changes: number;
  changedAt: number;
}

/** The first look after a change comes this soon; each further change within {@link QUIET_MS} doubles it. */
const FIRST_LOOK_MS = 20;
/** The root's, where new allocations appear: a burst of Allocates is over by then, and none of its pods runs yet. */
const FIRST_ROOT_LOOK_MS = 250;
const SLOWEST_LOOK_MS = 640;
const QUIET_MS = 5_000;
/** A directory that cannot be read is tried again after this. */
const RETRY_MS = 5_000;
/** One that cannot be watched is looked at this often. */
const UNWATCHED_LOOK_MS = 1_000;
/** All are looked at this long after a change: a pod that makes events fast enough makes the kernel lose others'. */
const CHECK_AFTER_CHANGE_MS = 10_000;
/** A directory that changed this shortly before it was read may change again without another time (4 ms on Linux). */
const MTIME_SETTLED_MS = 1_000;
/** Between two attempts to remove what was set aside. */
const REMOVAL_PAUSE_MS = 1_000;
/** A look takes some 50 µs; after so many the event loop is left to others. */
const LOOKS_AT_ONCE = 40;
/** Root in a pod may add entries to its allocation's directory; no more than these are read. */
const NAMES_MAX = 256;

/**
 * Watches the directories of pods: gives a socket that appears to the directory's group, and removes in the background
 * what was set aside. A watch ends with its first event until the next look, so that a pod that makes many events does
 * not keep the event loop busy. Not chokidar, which reads a directory whole at each event and watches each file.
 */
export class PodDirectories {
  readonly #options: PodDirectoriesOptions;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #root = newPlace(undefined, "");
  readonly #due: Place[] = [];
  #looking: Promise<void> | undefined;
  #removing: Promise<void> | undefined;
  #isCheckDue = false;
  #isUnwatchedLogged = false;
  #socketsOpened = 0;
  #hasChanged = true;

  constructor(options: PodDirectoriesOptions) {
    this.#options = options;
  }

  /** Sockets that were given to their group since the start. */
  get socketsOpened(): number {
    return this.#socketsOpened;
  }

  /** Looks at everything once, which is done when it resolves, then watches until it is closed. */
  async start(): Promise<void> {
    this.#lookSoon(this.#root);
    await this.#looking;
  }

  /** Whether something may have changed since this was last asked; always where not all can be watched. */
  takeChanged(): boolean {
    const hasChanged = this.#hasChanged;
    this.#hasChanged = this.#isUnwatchedLogged;
    return hasChanged;
  }

  /** Looks for what the watch may have missed, cheaply. */
  check(): void {
    const { root } = this.#options;
    this.#lookSoon(this.#root);
    for (const allocation of this.#root.children.values()) {
      const path = join(root, allocation.name);
      const mtimeMs = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs;
      if (allocation.watch === undefined || mtimeMs !== allocation.readAtMtime) this.#lookSoon(allocation);
      for (const place of allocation.children.values()) {
        if (place.watch === undefined || isSocketClosed(join(path, place.name))) this.#lookSoon(place);
      }
    }
  }

  /** Ends the watch; a removal that is under way ends within a step, and the next start goes on with it. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#forget(this.#root);
    await this.#looking;
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #lookSoon(place: Place): void {
    if (place.state === "due" || place.state === "gone" || this.#stop.signal.aborted) return;
    place.state = "due";
    this.#due.push(place);
    this.#looking ??= this.#lookAtDue();
  }

  async #lookAtDue(): Promise<void> {
    // Nothing is looked at before `#looking` is set, or a look that adds places would start a second loop.
    await undefined;
    for (let looks = 1; this.#due.length > 0; looks++) {
      const place = this.#due.shift();
      if (place?.state === "due") this.#look(place);
      if (looks % LOOKS_AT_ONCE === 0) await nextTurn();
    }
    this.#looking = undefined;
  }

  #look(place: Place): void {
    place.state = "idle";
    try {
      using directory = openPlace(this.#options.root, place);
      if (directory === undefined) {
        this.#forget(place);
        return;
      }
      // Watched before it is read, so that nothing is missed in between.
      this.#watch(place, directory);
      const { mtimeMs } = directory.status();
      const isSettled = mtimeMs < this.#options.clock.now() - MTIME_SETTLED_MS;
      place.readAtMtime = isSettled ? mtimeMs : undefined;
      if (place.parent === undefined) this.#lookAtRoot(directory);
      else if (place.parent.parent === undefined) this.#follow(place, directory.listSome(NAMES_MAX));
      else if (giveSocketToGroup(directory)) {
        this.#socketsOpened += 1;
        const file = Buffer.from(join(place.parent.name, place.name), "latin1").toString();
        this.#options.logger.debug({ file, socket: SOCKET_FILE }, "gave a socket to its group");
      }
    } catch (error) {
      const file = Buffer.from(join(place.parent?.name ?? "", place.name), "latin1").toString();
      const reason = describeThrown(error);
      this.#options.logger.error({ file, reason }, "a pod's directory cannot be read, trying again");
      this.#later(RETRY_MS, () => this.#lookSoon(place));
    }
  }

  #lookAtRoot(root: OpenDirectory): void {
    const entries = root.listSome();
    this.#follow(
      this.#root,
      entries.filter(({ name }) => isAllocationId(name)),
    );
    if (this.#removing !== undefined || !entries.some(({ name }) => isSetAside(name))) return;
    const removing = this.#removeSetAside().finally(() => {
      this.#removing = undefined;
    });
    this.#removing = removing;
    this.#run(removing);
  }

  #follow(place: Place, entries: readonly Dirent[]): void {
    const names = new Set(entries.filter((entry) => entry.isDirectory()).map(({ name }) => name));
    for (const [name, child] of place.children) if (!names.has(name)) this.#forget(child);
    for (const name of names) {
      if (place.children.has(name)) continue;
      const child = newPlace(place, name);
      place.children.set(name, child);
      this.#lookSoon(child);
    }
  }

  #forget(place: Place): void {
    place.watch?.close();
    place.watch = undefined;
    place.state = "gone";
    place.parent?.children.delete(place.name);
    for (const child of place.children.values()) this.#forget(child);
  }

  #watch(place: Place, directory: OpenDirectory): void {
    place.watch?.close();
    place.watch = undefined;
    if (this.#stop.signal.aborted) return;
    try {
      const watcher = watch(directory.self, { persistent: false });
      const onEvent = () => {
        watcher.close();
        if (place.watch === watcher) this.#changed(place);
      };
      watcher.on("change", onEvent).on("error", onEvent);
      place.watch = watcher;
    } catch (error) {
      this.#later(UNWATCHED_LOOK_MS, () => this.#lookSoon(place));
      if (this.#isUnwatchedLogged) return;
      this.#isUnwatchedLogged = true;
      const reason = describeThrown(error);
      this.#options.logger.warn(
        { reason, code: systemCode(error) },
        "directories cannot be watched and are polled instead; raise fs.inotify.max_user_watches",
      );
    }
  }

  /** Something changed: look soon, but the later the more often it happens. */
  #changed(place: Place): void {
    const now = this.#options.clock.monotonic();
    place.watch = undefined;
    this.#hasChanged = true;
    place.changes = now - place.changedAt > QUIET_MS ? 0 : place.changes + 1;
    place.changedAt = now;
    if (place.state === "idle") {
      place.state = "changed";
      const firstMs = place.parent === undefined ? FIRST_ROOT_LOOK_MS : FIRST_LOOK_MS;
      this.#later(Math.min(SLOWEST_LOOK_MS, firstMs * 2 ** place.changes), () => this.#lookSoon(place));
    }
    if (this.#isCheckDue) return;
    this.#isCheckDue = true;
    this.#later(CHECK_AFTER_CHANGE_MS, () => {
      this.#isCheckDue = false;
      this.check();
    });
  }

  /** One after the other, until nothing is left that was set aside. Never rejects. */
  async #removeSetAside(): Promise<void> {
    const { root: path, clock, logger } = this.#options;
    const { signal } = this.#stop;
    let isLogged = false;
    while (!signal.aborted) {
      let left: unknown;
      try {
        using root = openDirectory(path);
        const names = root.listSome().flatMap(({ name }) => (isSetAside(name) ? [name] : []));
        if (names.length === 0) return;
        for (const file of names) {
          if (signal.aborted) return;
          if (!(await removeSetAside(root, file, { clock, signal })))
            left = "it is too large, or still being filled";
        }
      } catch (error) {
        left = error;
      }
      if (left === undefined || signal.aborted) continue;
      const reason = typeof left === "string" ? left : describeThrown(left);
      if (!isLogged)
        logger.warn({ reason }, "the directory of a pod that is gone is not removed yet, continuing");
      isLogged = true;
      await clock.sleep(REMOVAL_PAUSE_MS, signal).catch(() => undefined);
    }
  }

  #later(ms: number, act: () => void): void {
    const { signal } = this.#stop;
    const waited = this.#options.clock.sleep(ms, signal).then(act);
    this.#run(waited.catch(() => undefined));
  }

  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}

function newPlace(parent: Place | undefined, name: string): Place {
  return {
    ...{ parent, name, children: new Map(), watch: undefined, readAtMtime: undefined },
    ...{ state: "idle", changes: 0, changedAt: Number.NEGATIVE_INFINITY },
  };
}

/** Opens it from the root down without following a link; undefined when it is gone or is no directory. */
function openPlace(root: string, { parent, name }: Place): OpenDirectory | undefined {
  if (parent === undefined) return openDirectory(root);
  using above = openPlace(root, parent);
  try {
    return above?.openEntry(nameBytes(name));
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}
