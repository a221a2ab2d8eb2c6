import type { Logger } from "../../logging/logger.ts";
import type { DirectoryOwnership } from "../../names/directory-ownership.ts";
import type { Background } from "./background.ts";
import { emptyHoard } from "./empty-hoard.ts";
import type { HeldDirectory } from "./held-directory.ts";
import type { InodeStock } from "./inode-stock.ts";
import { isLockOf, type Lock, lockDirectory, lockLeftBehind, unlockDirectory } from "./lock-directory.ts";
import { forgetChanges, hasTaken } from "./note-change.ts";
import { openPlace, type Place } from "./place.ts";

/** What sanctions work with. */
export interface SanctionsOptions {
  readonly root: string;
  readonly background: Background;
  readonly stock: InodeStock;
  readonly logger: Logger;
  /** Owner, group and mode of an allocation's directories, as the records have them. */
  readonly ownershipOf: (allocationId: string) => DirectoryOwnership | undefined;
  readonly firstLockMs: number | undefined;
  /** Tells of an error that makes something be tried again. */
  readonly tell: (error: unknown, place: Place) => void;
  /** Looks at a place of which the lock has ended. */
  readonly look: (place: Place) => void;
}

/**
 * What a pod did: it put more into its directory than it may, it takes inodes that nobody sees, or it merely changes
 * its directory without end while inodes are scarce.
 */
export type Offence = "hoard" | "taking" | "restless";

const SAID: Readonly<Record<Offence, string>> = {
  hoard: "a pod filled its directory; it is emptied and locked for a while",
  taking:
    "a pod takes inodes by files that it unlinks and keeps open; its directory is locked until they are back",
  restless: "a pod changes its directory without end while inodes are scarce; it is locked for a while",
};

/** A directory is given back after this; doubled each time up to the longest. */
const FIRST_LOCK_MS = 5_000;
const LONGEST_LOCK_MS = 600_000;

/** Takes directories from pods that misuse them, and gives them back after a while. */
export class Sanctions {
  readonly #options: SanctionsOptions;
  #imposed = 0;

  constructor(options: SanctionsOptions) {
    this.#options = options;
  }

  /** How often a directory was taken. */
  get imposed(): number {
    return this.#imposed;
  }

  /** Locks a directory, and empties it where it is a hoard. @throws what the file system gives; it is not locked then */
  async impose(place: Place, directory: HeldDirectory, offence: Offence): Promise<void> {
    const { background, logger } = this.#options;
    const lock = lockDirectory(directory, this.#wanted(place));
    place.lock = lock;
    this.#imposed += 1;
    const lockedMs = this.#nextLockMs(place);
    const emptying = offence === "hoard" ? emptyHoard(directory) : Promise.resolve(0);
    // Before the emptying ends, which may be with an error.
    background.spawn(this.#unlockLater(place, lock, lockedMs, this.#reasonToStay(offence, place), emptying));
    const removed = await emptying;
    const [allocation] = place.path.split("/");
    const told = { allocation, file: place.path, removed, lockedMs };
    logger.warn(told, SAID[offence]);
  }

  /**
   * Takes over the lock of a killed daemon, which cannot give back what it took. Of a directory that was made in the
   * place of a locked one nothing is to be given back.
   */
  adopt(place: Place, directory: HeldDirectory): void {
    if (place.lock !== undefined && isLockOf(place.lock, directory)) return;
    const lock = lockLeftBehind(directory, this.#wanted(place));
    place.lock = lock;
    if (lock === undefined) return;
    this.#options.background.spawn(this.#unlockLater(place, lock, this.#nextLockMs(place), () => false));
  }

  #wanted(place: Place): DirectoryOwnership | undefined {
    return this.#options.ownershipOf(place.path.split("/")[0] ?? "");
  }

  /** Counts an offence. */
  #nextLockMs(place: Place): number {
    const ms = (this.#options.firstLockMs ?? FIRST_LOCK_MS) * 2 ** place.offences;
    place.offences += 1;
    return Math.min(LONGEST_LOCK_MS, ms);
  }

  async #unlockLater(
    place: Place,
    lock: Lock,
    ms: number,
    hasToStay: () => boolean,
    emptying: Promise<unknown> = Promise.resolve(),
  ): Promise<void> {
    const { background, look } = this.#options;
    await emptying.catch(() => undefined);
    do await background.sleep(ms);
    while (!this.#tryUnlock(place, lock, hasToStay) && !background.isOver);
    look(place);
  }

  #tryUnlock(place: Place, lock: Lock, hasToStay: () => boolean): boolean {
    const { root, background, tell } = this.#options;
    try {
      if (place.state === "gone" || place.lock !== lock) return true;
      // All get their directories back when the daemon ends.
      if (!background.isOver && hasToStay()) return false;
      using directory = openPlace(root, place);
      if (directory !== undefined) unlockDirectory(directory, lock);
      place.lock = undefined;
      forgetChanges(place);
      return true;
    } catch (error) {
      tell(error, place);
      return false;
    }
  }

  /** What a lock's end waits for, beside the time. Who is merely restless may be innocent of the scarcity. */
  #reasonToStay(offence: Offence, { inodesAtSpan }: Place): () => boolean {
    const { stock } = this.#options;
    if (offence === "restless") return () => false;
    if (offence === "hoard") return () => stock.isScarce();
    // What it took comes back when its program ends; until then it would only take more.
    return () => stock.isScarce() || hasTaken(inodesAtSpan, stock.used());
  }
}
