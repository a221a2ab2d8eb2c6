import { describeThrown, Failure, systemCode } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { DirectoryOwnership } from "../../names/directory-ownership.ts";
import type { Clock } from "../../sync/clock.ts";
import { Background } from "./background.ts";
import { DirectoryCare } from "./directory-care.ts";
import { emptyHoard } from "./empty-hoard.ts";
import { byteName, type HeldDirectory } from "./held-directory.ts";
import { InodeStock, type Inodes } from "./inode-stock.ts";
import { type Children, listAllocation, listAllocations, oursAmong } from "./list-children.ts";
import { LookQueue } from "./look-queue.ts";
import { noteChange } from "./note-change.ts";
import { newPlace, openPlace, type Place } from "./place.ts";
import { Pulse } from "./pulse.ts";
import { Sanctions } from "./sanctions.ts";
import { watchOnce } from "./watch-once.ts";

/** What a guard works with. */
export interface DirectoryGuardOptions {
  /** Host directory of all allocations. */
  readonly root: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Owner, group and mode of an allocation's directories, to give them back as they should be. */
  readonly ownershipOf?: (allocationId: string) => DirectoryOwnership | undefined;
  /**
   * Names of the directories that an allocation should have: its devices and interfaces; undefined without a record.
   * A pod's root may make others beside them.
   */
  readonly namesOf?: (allocationId: string) => readonly string[] | undefined;
  /** How long a directory is locked the first time; default 5 s. */
  readonly firstLockMs?: number;
  /** The root's inodes, may throw; default statfs(2). */
  readonly inodes?: () => Inodes;
}

/** What a guard has done since it began, for metrics. */
export interface GuardCounts {
  /** Sockets made accessible to their pool's group. */
  readonly socketsMended: number;
  /** Times that a directory was emptied, or taken from its pod for the inodes that it used up. */
  readonly hoardsEmptied: number;
}

/** Looks at everything, for changes that the kernel did not report. */
const SWEEP_MS = 300_000;
/**
 * The same after a change: who makes events faster than they are read makes the kernel's queue overflow, which loses
 * those of others, and nobody is told.
 */
const SWEEP_AFTER_CHANGE_MS = 10_000;
/** A look that failed is made again after this. */
const RETRY_MS = 5_000;

/**
 * Looks after what pods do in their directories: a socket gets the group's access, and a directory that a pod fills
 * is emptied. It can do without the records: what they do not say is taken from the directories as they are.
 * Level-triggered: a watch only says where to look again.
 */
export class DirectoryGuard {
  readonly #options: DirectoryGuardOptions;
  readonly #background: Background;
  readonly #stock: InodeStock;
  readonly #queue: LookQueue;
  readonly #pulse: Pulse;
  readonly #sanctions: Sanctions;
  readonly #care: DirectoryCare;
  readonly #places = new Set<Place>();
  #allocationsCleared = 0;
  #toldOfWatches = false;
  #isSweepDue = false;

  constructor(options: DirectoryGuardOptions) {
    const { root, clock, logger, firstLockMs } = options;
    this.#options = options;
    this.#background = new Background(clock, (error) =>
      logger.error({ reason: describeThrown(error) }, "directory guard"),
    );
    const background = this.#background;
    this.#stock = new InodeStock(root, options.inodes);
    this.#queue = new LookQueue((place) => background.spawn(this.#look(place)), background.signal);
    const look = (place: Place) => this.#lookNow(place);
    this.#pulse = new Pulse(background, this.#stock, look);
    this.#sanctions = new Sanctions({
      ...{ root, background, logger, firstLockMs, look },
      stock: this.#stock,
      ownershipOf: (id) => options.ownershipOf?.(id),
      tell: (error, place) => this.#tell(error, place),
    });
    this.#care = new DirectoryCare({
      ...{ pulse: this.#pulse, sanctions: this.#sanctions, stock: this.#stock, logger },
      watchAnew: (place, directory) => this.#watch(place, directory),
    });
  }

  get counts(): GuardCounts {
    const hoardsEmptied = this.#sanctions.imposed + this.#allocationsCleared;
    return { socketsMended: this.#care.socketsMended, hoardsEmptied };
  }

  /** Looks at everything once, which is done when it resolves, then goes on until it is closed. */
  async start(): Promise<void> {
    this.#add(undefined, "");
    await this.#queue.drained();
    this.#background.spawn(this.#sweepNowAndThen());
  }

  async close(): Promise<void> {
    const closed = this.#background.close();
    for (const place of this.#places) place.watch?.close();
    await closed;
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
    this.#pulse.delete(place);
    for (const child of place.children.values()) this.#forget(child);
    place.children.clear();
  }

  /** Something changed: look soon, but the later the oftener it happens. */
  #changed(place: Place): void {
    if (place.state !== "watched" || this.#background.isOver) return;
    const wait = noteChange(place, this.#options.clock.now(), this.#stock.used());
    place.state = "due";
    this.#background.later(wait, () => this.#queue.add(place));
    if (this.#isSweepDue) return;
    this.#isSweepDue = true;
    this.#background.later(SWEEP_AFTER_CHANGE_MS, () => {
      this.#isSweepDue = false;
      this.#sweep();
    });
  }

  #lookNow(place: Place): void {
    if (place.state !== "watched") return;
    place.state = "due";
    this.#queue.add(place);
  }

  /** Does not reject: a place of which a look failed would else never be looked at again. */
  async #look(place: Place): Promise<void> {
    if (this.#background.isOver || place.state !== "due") return;
    place.state = "looking";
    let hasFailed = false;
    try {
      using directory = openPlace(this.#options.root, place);
      if (directory === undefined) {
        this.#gone(place);
        return;
      }
      // Watched before it is looked at, so that nothing falls in between.
      this.#watch(place, directory);
      // Emptying a hoard takes a while: the queue does not wait for it, for others' sockets do.
      if (place.level === "directory") await this.#care.tend(place, directory);
      else await this.#list(place, directory);
    } catch (error) {
      hasFailed = true;
      this.#tell(error, place);
    } finally {
      if (place.state === "looking") place.state = "watched";
    }
    if (hasFailed) this.#background.later(RETRY_MS, () => this.#lookNow(place));
    // The watch may have gone off meanwhile, when nobody was to be called.
    else if (place.watch === undefined && !this.#pulse.has(place)) this.#changed(place);
  }

  #gone(place: Place): void {
    // The root may come back, and nothing else would make the guard look again.
    if (place.level === "root")
      throw new Failure({ code: "root-missing", what: "the root is not there", where: this.#options.root });
    this.#forget(place);
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
      this.#pulse.add(place);
      if (this.#toldOfWatches) return;
      this.#toldOfWatches = true;
      const reason = describeThrown(error);
      this.#options.logger.warn(
        { reason, code: systemCode(error) },
        "directories cannot be watched and are polled instead; raise fs.inotify.max_user_watches",
      );
    }
  }

  async #list(place: Place, directory: HeldDirectory): Promise<void> {
    const names = () => {
      const known = this.#options.namesOf?.(place.path);
      return known && new Set(known.map(byteName));
    };
    const list = () => {
      if (place.level === "root") return listAllocations(directory);
      const known = names();
      return listAllocation(
        directory,
        oursAmong(() => known, place.children),
      );
    };
    let children = list();
    if (children.isHoard) {
      await this.#clear(place, directory, oursAmong(names, place.children));
      children = list();
    }
    this.#take(place, children);
  }

  /** Not locked: the directory is root's already, and so is the pod that could fill it. */
  async #clear(place: Place, directory: HeldDirectory, isOurs: ReturnType<typeof oursAmong>): Promise<void> {
    const removed = await emptyHoard(directory, isOurs);
    this.#allocationsCleared += 1;
    place.offences += 1;
    const told = { allocation: place.path, file: place.path, removed };
    // It goes on for as long as the pod does.
    this.#options.logger[place.offences === 1 ? "warn" : "debug"](
      told,
      "a pod's root filled the directory of its allocation; what the daemon did not make there is removed",
    );
  }

  #take(place: Place, { names, isHoard }: Children): void {
    for (const [name, child] of place.children) {
      if ((isHoard || names.has(name)) && child.state !== "gone") continue;
      this.#forget(child);
      place.children.delete(name);
    }
    for (const name of names) if (!place.children.has(name)) this.#add(place, name);
  }

  #tell(error: unknown, place: Place): void {
    const told = { file: place.path, reason: describeThrown(error), code: systemCode(error) };
    this.#options.logger.error(told, "directory guard: a directory could not be seen to; it is tried again");
  }

  async #sweepNowAndThen(): Promise<void> {
    while (!this.#background.isOver) {
      await this.#background.sleep(SWEEP_MS);
      this.#sweep();
    }
  }

  #sweep(): void {
    for (const place of [...this.#places]) this.#lookNow(place);
  }
}
