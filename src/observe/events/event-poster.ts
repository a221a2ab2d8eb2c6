import { describeThrown } from "../../failure/failure.ts";
import type { ApiOutcome } from "../../kube-api/client.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";
import {
  type EventSeries,
  eventName,
  eventObject,
  isNamed,
  microTime,
  type NodeEvent,
  namespaceOf,
  type Reporter,
} from "./event.ts";

/** What a poster works with. */
export interface EventPosterOptions {
  readonly api: {
    create(namespace: string, event: object, signal: AbortSignal): Promise<ApiOutcome>;
    patch(namespace: string, name: string, change: object, signal: AbortSignal): Promise<ApiOutcome>;
    close(): void;
  };
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What became of events; of each one exactly one counts. */
export interface EventCounts {
  posted: number;
  merged: number;
  dropped: number;
  failed: number;
}

/** One event and how often it happened. */
interface Series {
  readonly event: NodeEvent;
  readonly key: string;
  name: string;
  readonly firstAt: number;
  lastAt: number;
  count: number;
  /** How often the API server knows that it happened. */
  told: number;
  /** When it was told last, and how long it is told nothing more then. */
  toldAt: number;
  quietMs: number;
  isQueued: boolean;
}

/** Writes that wait; when the API server is away, old ones make room for new ones. */
const QUEUE_MAX = 256;
/** Series that are remembered, so that a repetition is no event of its own. */
const SERIES_MAX = 1_000;
/** An event that has not happened for so long begins a new series. */
const FORGET_MS = 10 * 60_000;
/** A series is told of once in this time, doubled each time up to the second. */
const QUIET_MS = 30_000;
const MAX_QUIET_MS = 5 * 60_000;
/** Writes are this far apart, but for so many that may come at once: 5 a second, as kubelet's own were for long. */
const PACE_MS = 200;
const BURST = 25;
/** Before each try of one write after its first. */
const RETRIES_MS = [1_000, 5_000, 30_000] as const;
/** Between two lines in the log that events are not taken. */
const COMPLAINT_MS = 10 * 60_000;
/** How often series are looked at that have something to tell. */
const TICK_MS = 5_000;

/**
 * Posts events to the API server, in the background: {@link EventPoster.post} takes no time and never fails. What
 * happens again and again is one event with a count; what the API server does not take is counted and forgotten.
 */
export class EventPoster {
  readonly #options: EventPosterOptions;
  readonly #closing = new AbortController();
  /** By key, the one that happened last at the end. */
  readonly #series = new Map<string, Series>();
  readonly #queue: Series[] = [];
  readonly #counts: EventCounts = { posted: 0, merged: 0, dropped: 0, failed: 0 };
  readonly #running: Promise<void>;
  #more = Promise.withResolvers<void>();
  #tokens = BURST;
  #tokensAt: number;
  /** Whether the last that the log has is that events are not taken. */
  #hasComplained = false;
  #quietUntil = Number.NEGATIVE_INFINITY;

  constructor(options: EventPosterOptions) {
    this.#options = options;
    this.#tokensAt = options.clock.now();
    this.#running = Promise.all([this.#write(), this.#tick()]).then(() => undefined);
  }

  /** Since it was made. */
  get counts(): Readonly<EventCounts> {
    return this.#counts;
  }

  /** Takes note of an event. */
  post(event: NodeEvent): void {
    if (!isNamed(event.regarding) || this.#closing.signal.aborted) {
      this.#counts.dropped += 1;
      return;
    }
    const now = this.#options.clock.now();
    const key = keyOf(event);
    const known = this.#series.get(key);
    this.#series.delete(key);
    if (known !== undefined && now - known.lastAt < FORGET_MS) {
      this.#series.set(key, known);
      known.count += 1;
      known.lastAt = now;
      this.#counts.merged += 1;
      return;
    }
    const series: Series = {
      ...{ event, key, name: eventName(event.regarding), firstAt: now, lastAt: now, count: 1, told: 0 },
      ...{ toldAt: now, quietMs: QUIET_MS, isQueued: false },
    };
    this.#series.set(key, series);
    const [oldest] = this.#series.values();
    if (this.#series.size > SERIES_MAX && oldest !== undefined) this.#series.delete(oldest.key);
    this.#enqueue(series);
  }

  /** Ends at once; what waits is not posted. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#more.resolve();
    await this.#running;
    this.#options.api.close();
  }

  #enqueue(series: Series): void {
    series.isQueued = true;
    this.#queue.push(series);
    if (this.#queue.length > QUEUE_MAX) {
      const dropped = this.#queue.shift();
      if (dropped !== undefined) this.#giveUp(dropped, "dropped");
    }
    this.#more.resolve();
  }

  /** The first of a series counts; that it was not told of how often it happened is no event lost. */
  #giveUp(series: Series, outcome: "dropped" | "failed"): void {
    series.isQueued = false;
    series.toldAt = this.#options.clock.now();
    if (series.told > 0) return;
    this.#counts[outcome] += 1;
    // Its next time is a first one again.
    if (this.#series.get(series.key) === series) this.#series.delete(series.key);
  }

  /** Has series told that happened again, and forgets those that do not any more. */
  async #tick(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => undefined);
      const now = clock.now();
      for (const series of this.#series.values()) {
        if (series.isQueued) continue;
        if (series.count > series.told && now - series.toldAt >= series.quietMs) this.#enqueue(series);
        else if (series.count === series.told && now - series.lastAt >= FORGET_MS)
          this.#series.delete(series.key);
      }
    }
  }

  async #write(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const series = this.#queue.shift();
      if (series === undefined) {
        this.#more = Promise.withResolvers();
        await this.#more.promise;
        continue;
      }
      try {
        await this.#pace();
        await this.#writeOne(series);
      } catch (error) {
        if (signal.aborted) return;
        this.#giveUp(series, "failed");
        this.#tell(describeThrown(error));
      }
    }
  }

  /** One after the other, and not too fast. */
  async #pace(): Promise<void> {
    const { clock } = this.#options;
    const now = clock.now();
    // A clock that was set back gives none.
    const gained = Math.max(0, now - this.#tokensAt) / PACE_MS;
    this.#tokens = Math.min(BURST, this.#tokens + gained);
    this.#tokensAt = now;
    this.#tokens -= 1;
    if (this.#tokens < 0) await clock.sleep(PACE_MS, this.#closing.signal);
  }

  async #writeOne(series: Series): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#closing;
    // A try whose answer was lost may have made it.
    let mayBeMade = false;
    for (let tries = 0; ; tries++) {
      const count = series.count;
      const asked = await this.#ask(series, count);
      const outcome: ApiOutcome = asked.kind === "exists" && mayBeMade ? { kind: "done" } : asked;
      if (outcome.kind === "done") {
        this.#done(series, count);
        return;
      }
      mayBeMade = outcome.kind === "later" && series.told === 0;
      // It was there, and is not any more: events live for an hour.
      if (outcome.kind === "missing") series.told = 0;
      if (outcome.kind !== "later") series.name = eventName(series.event.regarding);
      const pauseMs = RETRIES_MS[tries];
      if (outcome.kind === "refused" || pauseMs === undefined) {
        this.#giveUp(series, "failed");
        this.#tell("reason" in outcome ? outcome.reason : "every name is taken");
        return;
      }
      if (outcome.kind !== "later") continue;
      this.#tell(outcome.reason);
      await clock.sleep(Math.max(pauseMs, outcome.afterMs ?? 0), signal);
    }
  }

  #ask(series: Series, count: number): Promise<ApiOutcome> {
    const { api, reporter } = this.#options;
    const { signal } = this.#closing;
    const { event, name, firstAt, lastAt, told } = series;
    const namespace = namespaceOf(event.regarding);
    const repeated: EventSeries | undefined =
      count < 2 ? undefined : { count, lastObservedTime: microTime(lastAt) };
    if (told > 0) return api.patch(namespace, name, { series: repeated }, signal);
    const object = eventObject(event, reporter, { name, at: firstAt, series: repeated });
    return api.create(namespace, object, signal);
  }

  #done(series: Series, count: number): void {
    const { clock, logger } = this.#options;
    if (series.told === 0) this.#counts.posted += 1;
    else series.quietMs = Math.min(series.quietMs * 2, MAX_QUIET_MS);
    series.told = count;
    series.toldAt = clock.now();
    series.isQueued = false;
    if (this.#hasComplained) logger.info("Kubernetes events are taken again");
    this.#hasComplained = false;
  }

  /** Once until they are taken again, and not for each event whose namespace goes while others are taken. */
  #tell(reason: string): void {
    const { clock, logger } = this.#options;
    const now = clock.now();
    if (this.#hasComplained || now < this.#quietUntil) return;
    logger.warn({ reason }, "Kubernetes events are not taken");
    this.#hasComplained = true;
    this.#quietUntil = now + COMPLAINT_MS;
  }
}

function keyOf({ regarding, type, reason, action, subject = "" }: NodeEvent): string {
  const of =
    regarding.kind === "Pod" ? [regarding.namespace, regarding.name, regarding.uid] : [regarding.name];
  return JSON.stringify([regarding.kind, ...of, type, reason, action, subject]);
}
