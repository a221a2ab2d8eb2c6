import { readdirSync } from "node:fs";
import type { Clock } from "../clock/clock.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { emptyHoard, lockDirectory, unlockDirectory } from "./empty-hoard.ts";
import type { HeldDirectory } from "./held-directory.ts";
import { InodeStock, type Inodes } from "./inode-stock.ts";
import { ENTRIES_MAX, ENTRIES_MAX_AGAIN, type Inspection, inspectDirectory } from "./inspect-directory.ts";
import { lockLeftBehind, nextLockMs } from "./lock-terms.ts";
import { LookQueue } from "./look-queue.ts";
import { mendSocket } from "./mend-socket.ts";
import { forgetChanges, isRestless, noteChange } from "./note-change.ts";
import { newPlace, openPlace, type Place } from "./place.ts";
import { watchOnce } from "./watch-once.ts";

/** What a guard works with. */
export interface DirectoryGuardOptions {
  /** Host directory of all allocations. */
  readonly root: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Owner, group and mode of an allocation's directories, to open those that a killed daemon left locked. */
  readonly ownershipOf?: (allocationId: string) => DirectoryOwnership | undefined;
  /** How long a directory is locked the first time; default 5 s. */
  readonly firstLockMs?: number;
  /** The root's inodes, may throw; default statfs(2). */
  readonly inodes?: () => Inodes;
}

/** What a guard has done since it began, for metrics. */
export interface GuardCounts {
  /** Sockets made accessible to their pool's group. */
  readonly socketsMended: number;
  /** Times that a directory was emptied, or taken from its pod while inodes are scarce. */
  readonly hoardsEmptied: number;
}

/** Looks at everything, for changes that the kernel did not report. */
const SWEEP_MS = 300_000;
/** Looks at directories with sub-directories when the root fills, and at those that cannot be watched. */
const PULSE_MS = 50;
/** A look that failed is made again after this. */
const RETRY_MS = 5_000;
/**
 * Looks after what pods do in their directories: a socket gets the group's access, and a directory that a pod fills
 * is emptied. It needs nothing but the root: whatever the records say, owner and mode of a directory are what counts.
 * Level-triggered: a watch only says where to look again.
 */
export class DirectoryGuard {
  readonly #options: DirectoryGuardOptions;
  readonly #stop = new AbortController();
  readonly #places = new Set<Place>();
  /** Places that no watch covers: with sub-directories, or out of the kernel's watches. */
  readonly #pulsed = new Set<Place>();
  readonly #running = new Set<Promise<void>>();
  readonly #queue = new LookQueue((place) => this.#spawn(this.#look(place)), this.#stop.signal);
  readonly #stock: InodeStock;
  #isPulsing = false;
  #counts = { socketsMended: 0, hoardsEmptied: 0 };
  #toldOfWatches = false;

  constructor(options: DirectoryGuardOptions) {
    this.#options = options;
    this.#stock = new InodeStock(options.root, options.inodes);
  }

  get counts(): GuardCounts {
    return this.#counts;
  }

  /** Looks at everything once, which is done when it resolves, then goes on until it is closed. */
  async start(): Promise<void> {
    this.#add(undefined, "");
    await this.#queue.drained();
    this.#spawn(this.#sweep());
  }

  async close(): Promise<void> {
    this.#stop.abort();
    for (const place of this.#places) place.watch?.close();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #spawn(work: Promise<void>): void {
    const running = work
      .catch((error: unknown) => {
        if (!this.#stop.signal.aborted)
          this.#options.logger.error({ reason: describeThrown(error) }, "directory guard");
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  #add(parent: Place | undefined, name: string): void {
    const place = newPlace(parent, name);
    parent?.children.set(name, place);
    this.#places.add(place);
    this.#queue.add(place);
  }

  #forget(place: Place): void {
    place.watch?.close();
    place.watch = undefined;
    place.state = "gone";
    this.#places.delete(place);
    this.#pulsed.delete(place);
    for (const child of place.children.values()) this.#forget(child);
    place.children.clear();
  }

  /** Something changed: look soon, but the later the oftener it happens. */
  #changed(place: Place): void {
    if (place.state !== "watched" || this.#stop.signal.aborted) return;
    const wait = noteChange(place, this.#options.clock.now());
    place.state = "due";
    this.#spawn(this.#sleep(wait).then(() => this.#queue.add(place)));
  }

  #lookNow(place: Place): void {
    if (place.state !== "watched") return;
    place.state = "due";
    this.#queue.add(place);
  }

  /** Does not reject: a place of which a look failed would else never be looked at again. */
  async #look(place: Place): Promise<void> {
    if (this.#stop.signal.aborted || place.state !== "due") return;
    place.state = "looking";
    let hasFailed = false;
    try {
      using directory = openPlace(this.#options.root, place);
      if (directory === undefined) return this.#forget(place);
      // Watched before it is looked at, so that nothing falls in between.
      this.#watch(place, directory);
      // Emptying a hoard takes a while: the queue does not wait for it, for others' sockets do.
      if (place.level === "directory") await this.#tend(place, directory);
      else this.#list(place, directory);
    } catch (error) {
      hasFailed = true;
      this.#tell(error, place);
    } finally {
      if (place.state === "looking") place.state = "watched";
    }
    if (hasFailed) this.#spawn(this.#sleep(RETRY_MS).then(() => this.#lookNow(place)));
    // The watch may have gone off meanwhile, when nobody was to be called.
    else if (place.watch === undefined && !this.#pulsed.has(place)) this.#changed(place);
  }

  #watch(place: Place, directory: HeldDirectory): void {
    place.watch?.close();
    try {
      place.watch = watchOnce(directory.self, () => {
        place.watch = undefined;
        this.#changed(place);
      });
    } catch (error) {
      place.watch = undefined;
      this.#pulseToo(place);
      if (this.#toldOfWatches) return;
      this.#toldOfWatches = true;
      const reason = describeThrown(error);
      this.#options.logger.warn(
        { reason, code: systemCode(error) },
        "directories cannot be watched and are polled instead; raise fs.inotify.max_user_watches",
      );
    }
  }

  #list(place: Place, directory: HeldDirectory): void {
    const entries = readdirSync(directory.self, { withFileTypes: true });
    const names = new Set(entries.filter((entry) => entry.isDirectory()).map(({ name }) => name));
    for (const [name, child] of place.children) {
      if (names.has(name) && child.state !== "gone") continue;
      this.#forget(child);
      place.children.delete(name);
    }
    for (const name of names) {
      if (place.children.has(name) || (place.level === "root" && !isAllocationId(name))) continue;
      this.#add(place, name);
    }
  }

  async #tend(place: Place, directory: HeldDirectory): Promise<void> {
    if (place.lock === undefined) this.#adoptLock(place, directory);
    let { sockets, isHoard, isDeep } = this.#inspect(place, directory);
    if (place.lock !== undefined) {
      // Root in a pod with CAP_DAC_OVERRIDE is not kept out by a mode.
      if (isHoard) await emptyHoard(directory);
      return;
    }
    if (this.#mend(place, directory, sockets)) {
      // The guard's own change is none of the pod's: watched anew, and looked at anew for what fell in between.
      this.#watch(place, directory);
      ({ sockets, isHoard, isDeep } = this.#inspect(place, directory));
      this.#mend(place, directory, sockets);
    }
    if (isDeep) this.#pulseToo(place);
    else if (place.watch !== undefined) this.#pulsed.delete(place);
    // A pod that makes and unlinks files which it keeps open has few entries and many inodes.
    if (isHoard || (isRestless(place) && this.#stock.isScarce()))
      await this.#sanction(place, directory, isHoard);
  }

  #inspect(place: Place, directory: HeldDirectory): Inspection {
    return inspectDirectory(directory, place.offences > 0 ? ENTRIES_MAX_AGAIN : ENTRIES_MAX);
  }

  #mend(place: Place, directory: HeldDirectory, sockets: readonly string[]): boolean {
    const mended = sockets.filter((name) => mendSocket(directory, name));
    this.#counts.socketsMended += mended.length;
    for (const socket of mended)
      this.#options.logger.debug({ file: place.path, socket }, "socket opened for its group");
    return mended.length > 0;
  }

  async #sanction(place: Place, directory: HeldDirectory, isHoard: boolean): Promise<void> {
    place.lock = lockDirectory(directory);
    this.#counts.hoardsEmptied += 1;
    const lockedMs = nextLockMs(place, this.#options.firstLockMs);
    const emptying = isHoard ? emptyHoard(directory) : Promise.resolve(0);
    // Before the emptying ends, which may be with an error.
    this.#spawn(this.#unlockLater(place, lockedMs, isHoard, emptying));
    const removed = await emptying;
    const [allocation] = place.path.split("/");
    const told = { allocation, file: place.path, removed, lockedMs };
    this.#options.logger.warn(told, "a pod filled its directory; it is emptied and locked for a while");
  }

  /** A killed daemon cannot give back what it took. */
  #adoptLock(place: Place, directory: HeldDirectory): void {
    const wanted = this.#options.ownershipOf?.(place.path.split("/")[0] ?? "");
    place.lock = lockLeftBehind(directory, wanted);
    if (place.lock === undefined) return;
    const lockedMs = nextLockMs(place, this.#options.firstLockMs);
    this.#spawn(this.#unlockLater(place, lockedMs, false));
  }

  /** @param isHoard whether it stays locked while inodes are scarce; a place that was merely restless does not */
  async #unlockLater(
    place: Place,
    ms: number,
    isHoard: boolean,
    emptying: Promise<unknown> = Promise.resolve(),
  ): Promise<void> {
    await emptying.catch(() => undefined);
    do await this.#sleep(ms);
    while (!this.#tryUnlock(place, isHoard) && !this.#stop.signal.aborted);
    this.#lookNow(place);
  }

  #tryUnlock(place: Place, isHoard: boolean): boolean {
    try {
      const isOver = place.state === "gone" || this.#stop.signal.aborted;
      if (isHoard && !isOver && this.#stock.isScarce()) return false;
      using directory = openPlace(this.#options.root, place);
      if (directory !== undefined && place.lock !== undefined) unlockDirectory(directory, place.lock);
      place.lock = undefined;
      forgetChanges(place);
      return true;
    } catch (error) {
      this.#tell(error, place);
      return false;
    }
  }

  #tell(error: unknown, place: Place): void {
    const told = { file: place.path, reason: describeThrown(error), code: systemCode(error) };
    this.#options.logger.error(told, "directory guard: a directory could not be seen to; it is tried again");
  }

  #pulseToo(place: Place): void {
    this.#pulsed.add(place);
    if (!this.#isPulsing) this.#spawn(this.#pulse());
  }

  /** Goes on while there is a place that no watch covers. */
  async #pulse(): Promise<void> {
    this.#isPulsing = true;
    while (this.#pulsed.size > 0 && !this.#stop.signal.aborted) {
      await this.#sleep(PULSE_MS);
      const hasGrown = this.#stock.hasGrown();
      for (const place of this.#pulsed) if (hasGrown || place.watch === undefined) this.#lookNow(place);
    }
    this.#isPulsing = false;
  }

  async #sweep(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#sleep(SWEEP_MS);
      for (const place of [...this.#places]) this.#lookNow(place);
    }
  }

  /** Ends early, without an error, when the guard is closed. */
  async #sleep(ms: number): Promise<void> {
    await this.#options.clock.sleep(ms, this.#stop.signal).catch(() => undefined);
  }
}
