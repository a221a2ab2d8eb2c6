import { Failure } from "../../failure/failure.ts";
import type { Clock } from "../../sync/clock.ts";
import { ensureSocketDirectories } from "./ensure.ts";
import type { SocketDirectories } from "./expected.ts";

/** Less than the work on one port or directory may take, so that who fails says why. */
const FIRST_ROOM_MS = 5_000;

/**
 * Makes the directories of many allocations, one after the other. A root without room is waited for once: a
 * thousand allocations that waited each for itself would keep everything else waiting for hours.
 */
export class RoomForMany {
  readonly #clock: Clock;
  #roomMs = FIRST_ROOM_MS;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** As {@link ensureSocketDirectories}. @throws the same */
  async ensure(wanted: SocketDirectories, signal?: AbortSignal): Promise<void> {
    try {
      await ensureSocketDirectories(wanted, { signal, roomMs: this.#roomMs, clock: this.#clock });
    } catch (error) {
      if (error instanceof Failure && error.code === "root-full") this.#roomMs = 0;
      throw error;
    }
  }
}
