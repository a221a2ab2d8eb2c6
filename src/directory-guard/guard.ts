import { readdirSync, statfsSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../clock/clock.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { DirectoryOwnership } from "../names/directory-ownership.ts";
import { isLocked } from "../socket-directory/locked-directory.ts";
import { emptyHoard, lockDirectory, unlockDirectory } from "./empty-hoard.ts";
import type { HeldDirectory } from "./held-directory.ts";
import { ENTRIES_MAX, ENTRIES_MAX_AGAIN, inspectDirectory } from "./inspect-directory.ts";
import { mendSocket } from "./mend-socket.ts";
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
  /** Default {@link FIRST_LOCK_MS}. */
  readonly firstLockMs?: number;
}

/** What a guard has done since it began, for metrics. */
export interface GuardCounts {
  /** Sockets made accessible to their pool's group. */
  readonly socketsMended: number;
  /** Times that a directory was emptied, or taken from its pod while inodes are scarce. */
  readonly hoardsEmptied: number;
}

/** The first look after a change comes this soon; each further change within {@link QUIET_MS} doubles it. */
const FIRST_LOOK_MS = 20;
/** The last doubling: a socket is mended within this. */
const SLOWEST_LOOK_MS = 640;
const QUIET_MS = 5_000;
const LOOKS_PER_TURN = 40;
/** Looks at everything, for changes that the kernel did not report. */
const SWEEP_MS = 300_000;
/** Looks at directories with sub-directories when the root fills, and at those that cannot be watched. */
const PULSE_MS = 50;
/** Inodes taken between two pulses that call for a look. */
const PULSE_INODES = 100;
/** Share of free inodes below which a directory that does not rest is taken from its pod until there are more. */
const SCARCE = 0.5;
const RESTLESS_CHANGES = 3;
/** A directory is given back after this; doubled each time up to the longest. */
const FIRST_LOCK_MS = 5_000;
const LONGEST_LOCK_MS = 600_000;

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
  readonly #queue: Place[] = [];
  #pump: Promise<void> | undefined;
  #counts = { socketsMended: 0, hoardsEmptied: 0 };
  #toldOfWatches = false;

  constructor(options: DirectoryGuardOptions) {
    this.#options = options;
  }

  get counts(): GuardCounts {
    return this.#counts;
  }

  /** Looks at everything once, which is done when it resolves, then goes on until it is closed. */
  async start(): Promise<void> {
    this.#add(undefined, "");
    await this.#pump;
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
    this.#enqueue(place);
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
    const now = this.#options.clock.now();
    place.changes = now - place.changedAt > QUIET_MS ? 1 : place.changes + 1;
    place.changedAt = now;
    place.state = "due";
    const wait = Math.min(SLOWEST_LOOK_MS, FIRST_LOOK_MS * 2 ** (place.changes - 1));
    this.#spawn(this.#sleep(wait).then(() => this.#enqueue(place)));
  }

  /** A look takes some 50 µs; many of them leave the event loop to others in between. */
  #enqueue(place: Place): void {
    this.#queue.push(place);
    this.#pump ??= this.#lookAtAll().finally(() => {
      this.#pump = undefined;
    });
  }

  async #lookAtAll(): Promise<void> {
    for (let looks = 1; !this.#stop.signal.aborted; looks++) {
      const place = this.#queue.shift();
      if (place === undefined) return;
      // Not waited for: emptying a hoard takes a while, and others' sockets wait.
      this.#spawn(this.#look(place));
      if (looks % LOOKS_PER_TURN === 0) await nextTurn();
    }
  }

  #lookNow(place: Place): void {
    if (place.state !== "watched") return;
    place.state = "due";
    this.#enqueue(place);
  }

  async #look(place: Place): Promise<void> {
    if (this.#stop.signal.aborted || place.state !== "due") return;
    using directory = openPlace(this.#options.root, place);
    if (directory === undefined) return this.#forget(place);
    place.state = "looking";
    // Watched before it is looked at, so that nothing falls in between.
    this.#watch(place, directory);
    try {
      if (place.level === "directory") await this.#tend(place, directory);
      else this.#list(place, directory);
    } finally {
      if (place.state === "looking") place.state = "watched";
    }
    // The watch may have gone off meanwhile, when nobody was to be called.
    if (place.watch === undefined && !this.#pulsed.has(place)) this.#changed(place);
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
    const { sockets, isHoard, isDeep } = inspectDirectory(
      directory,
      place.offences > 0 ? ENTRIES_MAX_AGAIN : ENTRIES_MAX,
    );
    if (place.lock !== undefined) {
      // Root in a pod with CAP_DAC_OVERRIDE is not kept out by a mode.
      if (isHoard) await emptyHoard(directory);
      return;
    }
    for (const name of sockets) {
      if (!mendSocket(directory, name)) continue;
      this.#counts.socketsMended += 1;
      this.#options.logger.debug({ file: place.path, socket: name }, "socket opened for its group");
    }
    if (isDeep) this.#pulseToo(place);
    else if (place.watch !== undefined) this.#pulsed.delete(place);
    // A pod that makes and unlinks files which it keeps open has few entries and many inodes.
    const isRestless = place.changes + place.offences >= RESTLESS_CHANGES && this.#isScarce();
    if (isHoard || isRestless) await this.#sanction(place, directory, isHoard);
  }

  async #sanction(place: Place, directory: HeldDirectory, isHoard: boolean): Promise<void> {
    place.lock = lockDirectory(directory);
    const removed = isHoard ? await emptyHoard(directory) : 0;
    this.#counts.hoardsEmptied += 1;
    const lockedMs = this.#nextLockMs(place);
    const [allocation] = place.path.split("/");
    const told = { allocation, file: place.path, removed, lockedMs };
    this.#options.logger.warn(told, "a pod filled its directory; it is emptied and locked for a while");
    this.#spawn(this.#unlockLater(place, lockedMs));
  }

  #nextLockMs(place: Place): number {
    const ms = (this.#options.firstLockMs ?? FIRST_LOCK_MS) * 2 ** place.offences;
    place.offences += 1;
    return Math.min(LONGEST_LOCK_MS, ms);
  }

  /** A killed daemon cannot give back what it took. */
  #adoptLock(place: Place, directory: HeldDirectory): void {
    const wanted = this.#options.ownershipOf?.(place.path.split("/")[0] ?? "");
    const { uid, mode } = directory.status();
    if (wanted === undefined || !isLocked({ uid, mode }, wanted)) return;
    place.lock = { uid: wanted.owner, gid: wanted.group, mode: wanted.mode };
    this.#spawn(this.#unlockLater(place, this.#nextLockMs(place)));
  }

  async #unlockLater(place: Place, ms: number): Promise<void> {
    do await this.#sleep(ms);
    while (place.state !== "gone" && !this.#stop.signal.aborted && this.#isScarce());
    using directory = openPlace(this.#options.root, place);
    if (directory !== undefined && place.lock !== undefined) unlockDirectory(directory, place.lock);
    place.lock = undefined;
    place.changes = 0;
    this.#lookNow(place);
  }

  #pulseToo(place: Place): void {
    this.#pulsed.add(place);
    if (this.#pulsed.size === 1) this.#spawn(this.#pulse());
  }

  /** Goes on while there is a place that no watch covers. */
  async #pulse(): Promise<void> {
    let used = 0;
    while (this.#pulsed.size > 0 && !this.#stop.signal.aborted) {
      await this.#sleep(PULSE_MS);
      const { files, ffree } = statfsSync(this.#options.root);
      const hasGrown = files - ffree > used + PULSE_INODES;
      used = files - ffree;
      for (const place of this.#pulsed) if (hasGrown || place.watch === undefined) this.#lookNow(place);
    }
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

  #isScarce(): boolean {
    const { files, ffree } = statfsSync(this.#options.root);
    return ffree < files * SCARCE;
  }
}
