import type { Dataplane, LinkChange } from "../dataplane/dataplane.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import { isGoing, type PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { announcementFrames, unusedGroup } from "./frames.ts";
import { guestIdentity } from "./guest-identity.ts";

/**
 * Milliseconds before each time that a guest is announced. The first may be lost where the network is not ready yet;
 * frames of the guest's that are still under way from its old place may undo it for a moment.
 */
const PAUSES_MS = [0, 50, 100, 200, 400, 800] as const;
/** Time for one of them. */
const LIMIT_MS = 2_000;
/** A switch that restarts brings all its guests up at once, and has more to do then than to hear of them. */
const AT_ONCE = 8;

/** How an announcement ended: the switch took it at least once, or never. */
export type AnnouncementOutcome = "ok" | "failed";

/** What announcing works with. */
export interface AnnouncerOptions {
  /** All attachments of the node. */
  readonly ports: { list(): readonly PortRecord[] };
  /** Whether guests are to be announced at the moment. */
  readonly isWanted: () => boolean;
  /** Hears of every guest that came up and was to be announced. */
  readonly onAnnounced: (outcome: AnnouncementOutcome) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Announces a guest where its port comes up: after a migration the network learns at once where its MAC is, instead
 * of with the first frame that the guest happens to send. It ends as soon as the guest leaves the port again; the
 * switch is then told to look out for it elsewhere.
 */
export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #turns = new KeyedMutex();
  #count = 0;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  /** Announces the guests behind this switch's ports until one of the two is closed; gives the switch back. */
  follow(dataplane: Dataplane): Dataplane {
    const underWay = new Map<string, AbortController>();
    const onLink = ({ port, link }: LinkChange) => {
      underWay.get(port)?.abort();
      underWay.delete(port);
      if (link === "down") {
        this.#expectElsewhere(dataplane, port);
        return;
      }
      const left = new AbortController();
      underWay.set(port, left);
      const over = () => {
        if (underWay.get(port) === left) underWay.delete(port);
      };
      this.#track(this.#announce(dataplane, port, left.signal).then(over));
    };
    const watching = dataplane.watchLinks(onLink, this.#closing.signal);
    // Closing ends the watch too.
    this.#track(
      watching.then(() => {
        for (const left of underWay.values()) left.abort();
      }),
    );
    return dataplane;
  }

  /** Where it turns up, that node's daemon announces it; this node's own guests are to hear of it at once as well. */
  #expectElsewhere(dataplane: Dataplane, port: string): void {
    const record = this.#recordOf(port);
    if (record !== undefined && this.#options.isWanted()) dataplane.refreshMacTable?.(record.bridge);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#running);
  }

  #track(task: Promise<void>): void {
    this.#running.add(task);
    void task.then(() => this.#running.delete(task));
  }

  /** Never rejects. */
  async #announce(dataplane: Dataplane, port: string, signal: AbortSignal): Promise<void> {
    const { clock, logger, isWanted, onAnnounced } = this.#options;
    const first = this.#recordOf(port);
    if (first === undefined || !isWanted()) return;
    this.#count += 1;
    const turn = { key: `${this.#count % AT_ONCE}`, what: "an announcement", signal };
    let sent = 0;
    let failure: unknown;
    for (const pauseMs of PAUSES_MS) {
      if (pauseMs > 0) await clock.sleep(pauseMs, signal).catch(() => undefined);
      // It may be detached, or have got its addresses, while we slept.
      const record = this.#recordOf(port);
      if (signal.aborted || record === undefined) break;
      const frames = announcementFrames(guestIdentity(record), unusedGroup());
      const send = () => {
        const limit = within(signal, LIMIT_MS);
        return dataplane.announce({ name: port, bridge: record.bridge }, frames, limit);
      };
      try {
        if (!(await this.#turns.run(turn, send))) break;
      } catch (thrown) {
        failure = thrown;
        continue;
      }
      sent += 1;
      if (sent === 1) logger.info(attachmentFields(record), "announced a guest to the network");
    }
    if (sent > 0) onAnnounced("ok");
    else if (failure !== undefined && !signal.aborted) {
      onAnnounced("failed");
      logger.warn({ ...attachmentFields(first), err: failure }, "could not announce a guest to the network");
    }
  }

  #recordOf(port: string): PortRecord | undefined {
    return this.#options.ports.list().find((record) => record.portName === port && !isGoing(record));
  }
}
