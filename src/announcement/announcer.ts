// Announces guests that come up behind a port, so that the network learns at once where their MAC is.
import type { Dataplane, LinkChange } from "../dataplane/dataplane.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import { isGoing, type PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { announcementFrames, guestIdentity, unusedGroup } from "./frames.ts";

/**
 * Milliseconds before each repetition. The first announcement may be lost where the network is not ready yet; frames of
 * the guest that are still under way from its old place may undo it for a moment.
 */
const PAUSES_MS = [50, 100, 200, 400, 800] as const;
/** Milliseconds for one announcement. */
const LIMIT_MS = 2_000;
/** Announcements at a time: a switch that restarts brings all its guests up at once, and is busy then. */
const WORKERS = 8;

/** What announcing works with. */
export interface AnnouncerOptions {
  /** All attachments of the node. */
  readonly ports: { list(): readonly PortRecord[] };
  readonly isEnabled: boolean;
  /** Called for every guest that was to be announced: the switch sent it at least once, or never. */
  readonly onAnnounced: (outcome: "ok" | "failed") => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A guest that came up, until it was announced often enough or leaves. */
interface Arrival {
  readonly dataplane: Dataplane;
  readonly record: PortRecord;
  readonly left: AbortController;
  tries: number;
  sent: number;
  failure?: unknown;
}

/**
 * Announces a guest when its port comes up: after a migration the network learns at once where its MAC is, instead of
 * with the first frame that the guest happens to send. When the guest leaves again, its announcement ends and the
 * switch is asked to apply what it learns of the guest's new place at once.
 */
export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #stop = new AbortController();
  readonly #queue: WorkQueue;
  readonly #running: Promise<unknown>[];
  /** By the port's name. */
  readonly #arrivals = new Map<string, Arrival>();

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    this.#queue = new WorkQueue({
      work: (port) => this.#announce(port),
      workers: WORKERS,
      clock: options.clock,
    });
    this.#running = [this.#queue.run(this.#stop.signal)];
  }

  /** Announces the guests behind this switch's ports until one of the two is closed. @returns the switch */
  follow(dataplane: Dataplane): Dataplane {
    if (!this.#options.isEnabled) return dataplane;
    const watching = dataplane.watchLinks((change) => this.#onLink(dataplane, change), this.#stop.signal);
    // Closing ends the watch too.
    const ended = watching.then(() => {
      for (const [port, arrival] of this.#arrivals) if (arrival.dataplane === dataplane) this.#end(port);
    });
    this.#running.push(ended);
    return dataplane;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  #onLink(dataplane: Dataplane, { port, link }: LinkChange): void {
    this.#end(port);
    const record = this.#recordOf(port);
    if (record === undefined) return;
    if (link === "down") {
      // The node where it appears announces it; this node's own guests are to learn its place at once as well.
      dataplane.refreshMacTable?.(record.bridge);
      return;
    }
    this.#arrivals.set(port, { dataplane, record, left: new AbortController(), tries: 0, sent: 0 });
    this.#queue.add(port);
  }

  /** Announces a guest once, and again later unless that was the last time or the guest is not there. */
  async #announce(port: string): Promise<void> {
    const arrival = this.#arrivals.get(port);
    // It may have been detached, or got its addresses, since the last time.
    const record = this.#recordOf(port);
    if (arrival === undefined || record === undefined) return this.#end(port);
    const { dataplane, left } = arrival;
    const frames = announcementFrames(guestIdentity(record), unusedGroup());
    let isThere = true;
    try {
      const place = { name: port, bridge: record.bridge };
      isThere = await dataplane.announce(place, frames, within(left.signal, LIMIT_MS));
      if (isThere) arrival.sent += 1;
      if (isThere && arrival.sent === 1) {
        this.#options.logger.info(attachmentFields(record), "announced a guest to the network");
      }
    } catch (thrown) {
      arrival.failure = thrown;
    }
    if (this.#arrivals.get(port) !== arrival) return;
    const pauseMs = isThere ? PAUSES_MS[arrival.tries] : undefined;
    arrival.tries += 1;
    if (pauseMs === undefined) this.#end(port);
    else this.#queue.addAfter(port, pauseMs);
  }

  #end(port: string): void {
    const arrival = this.#arrivals.get(port);
    if (arrival === undefined) return;
    this.#arrivals.delete(port);
    const { record, left, sent, tries, failure } = arrival;
    left.abort();
    const { onAnnounced, logger } = this.#options;
    if (sent > 0) onAnnounced("ok");
    else if (failure !== undefined && tries > PAUSES_MS.length) {
      onAnnounced("failed");
      logger.warn({ ...attachmentFields(record), err: failure }, "could not announce a guest to the network");
    }
  }

  #recordOf(port: string): PortRecord | undefined {
    return this.#options.ports.list().find((record) => record.portName === port && !isGoing(record));
  }
}
