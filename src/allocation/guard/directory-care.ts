import type { Logger } from "../../logging/logger.ts";
import { emptyHoard } from "./empty-hoard.ts";
import type { HeldDirectory } from "./held-directory.ts";
import type { InodeStock } from "./inode-stock.ts";
import { ENTRIES_MAX, ENTRIES_MAX_AGAIN, type Inspection, inspectDirectory } from "./inspect-directory.ts";
import { mendSocket } from "./mend-socket.ts";
import { isRestless, isTaking } from "./note-change.ts";
import type { Place } from "./place.ts";
import type { Pulse } from "./pulse.ts";
import type { Offence, Sanctions } from "./sanctions.ts";

/** What the care for directories works with. */
export interface DirectoryCareOptions {
  readonly pulse: Pulse;
  readonly sanctions: Sanctions;
  readonly stock: InodeStock;
  readonly logger: Logger;
  /** Begins a watch that has not seen what happened until now. */
  readonly watchAnew: (place: Place, directory: HeldDirectory) => void;
}

/** What is done at each look at one of a pod's own directories. */
export class DirectoryCare {
  readonly #options: DirectoryCareOptions;
  #socketsMended = 0;

  constructor(options: DirectoryCareOptions) {
    this.#options = options;
  }

  /** Sockets made accessible to their pool's group. */
  get socketsMended(): number {
    return this.#socketsMended;
  }

  /** Mends sockets, and sees to it that the directory stays small. @throws what the file system gives */
  async tend(place: Place, directory: HeldDirectory): Promise<void> {
    const { pulse, sanctions, watchAnew } = this.#options;
    sanctions.adopt(place, directory);
    let { sockets, isHoard, isDeep } = inspect(place, directory);
    if (place.lock !== undefined) {
      // Root in a pod with CAP_DAC_OVERRIDE is not kept out by a mode.
      if (isHoard) await emptyHoard(directory);
      return;
    }
    if (this.#mend(place, directory, sockets)) {
      // The guard's own change is none of the pod's: watched anew, and looked at anew for what fell in between.
      watchAnew(place, directory);
      ({ sockets, isHoard, isDeep } = inspect(place, directory));
      this.#mend(place, directory, sockets);
    }
    if (isDeep) pulse.add(place);
    else if (place.watch !== undefined) pulse.delete(place);
    const offence = this.#offence(place, isHoard);
    if (offence !== undefined) await sanctions.impose(place, directory, offence);
  }

  /** A pod that makes and unlinks files which it keeps open has few entries and many inodes. */
  #offence(place: Place, isHoard: boolean): Offence | undefined {
    const { stock } = this.#options;
    if (isHoard) return "hoard";
    if (isTaking(place, stock.used())) return "taking";
    return isRestless(place) && stock.isScarce() ? "restless" : undefined;
  }

  #mend(place: Place, directory: HeldDirectory, sockets: readonly string[]): boolean {
    const mended = sockets.filter((name) => mendSocket(directory, name));
    this.#socketsMended += mended.length;
    for (const socket of mended)
      this.#options.logger.debug({ file: place.path, socket }, "socket opened for its group");
    return mended.length > 0;
  }
}

function inspect(place: Place, directory: HeldDirectory): Inspection {
  return inspectDirectory(directory, place.offences > 0 ? ENTRIES_MAX_AGAIN : ENTRIES_MAX);
}
