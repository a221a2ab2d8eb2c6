import { describeThrown } from "../../failure/failure.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeApi } from "../../kube-api/client.ts";
import { microTime } from "../../kube-api/micro-time.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";
import { WorkQueue } from "../../sync/work-queue.ts";
import { type EventProgram, eventName, eventObject, isNamed, type NodeEvent, namespaceOf } from "./event.ts";

/** What a poster works with. */
export interface EventPosterOptions {
  readonly api: Pick<KubeApi, "create" | "patch" | "close">;
  readonly program: EventProgram;
  /** Name of the program's pod, or of the node. */
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What became of events; each one counts once. */
export interface EventCounts {
  posted: number;
  merged: number;
  dropped: number;
  failed: number;
}

/** One event and how often it happened. */
interface Series {
  readonly event: NodeEvent;
  readonly firstAt: number;
  name: string;
  lastAt: number;
  /** By the monotonic clock. */
  lastMs: number;
  count: number;
  /** The count that the API server has; 0 before the event is posted. */
  posted: number;
  /** How long its next repetition waits to be posted. */
  quietMs: number;
}

const SERIES_MAX = 1_000;
/** An event that has not happened for so long begins a new series. */
const FORGET_MS = 10 * 60_000;
/** A series is updated once in this time, doubled with each update. */
const QUIET_MS = 30_000;
const MAX_QUIET_MS = 5 * 60_000;
/** Writes are so far apart, but for a burst: 5 a second, as kubelet's own were for long. */
const PACE_MS = 200;
const BURST = 25;
const RETRIES_MS = [1_000, 5_000, 30_000] as const;
/** Between two warnings. */
const WARN_MS = 10 * 60_000;

/**
 * Posts events to the API server in the background; {@link EventPoster.post} takes no time and never throws. Repetitions
 * are one event with a count. What the API server does not accept is counted and forgotten.
 */
export class EventPoster {
  readonly #options: EventPosterOptions;
  readonly #closing = new AbortController();
  /** By key, the one that happened last at the end. */
  readonly #series = new Map<string, Series>();
  readonly #counts: EventCounts = { posted: 0, merged: 0, dropped: 0, failed: 0 };
  readonly #queue: WorkQueue;
  readonly #running: Promise<void>;
  /** When the next write may begin. */
  #freeAtMs = Number.NEGATIVE_INFINITY;
  #hasWarned = false;
  #warnAgainMs = Number.NEGATIVE_INFINITY;

  constructor(options: EventPosterOptions) {
    this.#options = options;
    this.#queue = new WorkQueue({
      work: (key, signal) => this.#write(key, signal),
      backoffMs: (failures) => RETRIES_MS[failures - 1],
      onFailure: (key, error, retryMs) => this.#failed(key, error, retryMs === undefined),
      clock: options.clock,
    });
    this.#running = this.#queue.run(this.#closing.signal);
  }

  /** Since the start. */
  get counts(): Readonly<EventCounts> {
    return this.#counts;
  }

  post(event: NodeEvent): void {
    if (!isNamed(event.regarding) || this.#closing.signal.aborted) {
      this.#counts.dropped += 1;
      return;
    }
    const { clock } = this.#options;
    const [now, nowMs] = [clock.now(), clock.monotonic()];
    const key = keyOf(event);
    const known = this.#series.get(key);
    this.#series.delete(key);
    if (known !== undefined && nowMs - known.lastMs < FORGET_MS) {
      this.#series.set(key, known);
      Object.assign(known, { count: known.count + 1, lastAt: now, lastMs: nowMs });
      this.#counts.merged += 1;
      this.#queue.addAfter(key, known.quietMs);
      return;
    }
    this.#series.set(key, {
      ...{ event, firstAt: now, name: eventName(event.regarding), lastAt: now, lastMs: nowMs },
      ...{ count: 1, posted: 0, quietMs: QUIET_MS },
    });
    const [oldest] = this.#series.keys();
    if (this.#series.size > SERIES_MAX && oldest !== undefined) this.#forget(oldest, "dropped");
    this.#queue.add(key);
  }

  /** Ends at once; what waits is not posted. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    this.#options.api.close();
  }

  async #write(key: string, signal: AbortSignal): Promise<void> {
    const series = this.#series.get(key);
    if (series === undefined || series.count === series.posted) return;
    const { api, clock, program, instance, logger } = this.#options;
    const nowMs = clock.monotonic();
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs - BURST * PACE_MS) + PACE_MS;
    if (this.#freeAtMs > nowMs) await clock.sleep(this.#freeAtMs - nowMs, signal);
    const { event, name, count, firstAt: at, lastAt } = series;
    const namespace = namespaceOf(event.regarding);
    const resource = { group: "events.k8s.io", version: "v1", plural: "events", namespace };
    const repeated = count < 2 ? undefined : { count, lastObservedTime: microTime(lastAt) };
    try {
      if (series.posted > 0)
        await api.patch(resource, name, { type: "merge", body: { series: repeated } }, signal);
      else
        await api.create(
          resource,
          eventObject(event, { name, at, program, instance, series: repeated }),
          signal,
        );
    } catch (error) {
      // It exists where an earlier try made it and the answer was lost: the name is random.
      if (!(error instanceof ApiFailure && error.problem === "exists")) throw error;
    }
    if (series.posted > 0) series.quietMs = Math.min(series.quietMs * 2, MAX_QUIET_MS);
    else if (this.#series.get(key) === series) this.#counts.posted += 1;
    series.posted = count;
    if (this.#hasWarned) logger.info("event posting recovered");
    this.#hasWarned = false;
  }

  #failed(key: string, error: unknown, isLast: boolean): void {
    const series = this.#series.get(key);
    const failure = error instanceof ApiFailure ? error : undefined;
    const { problem, isRetryable = false, retryAfterMs = 0 } = failure ?? {};
    if (retryAfterMs > 0) this.#freeAtMs = this.#options.clock.monotonic() + retryAfterMs;
    // The API server keeps events for an hour: this one is made again.
    if (series !== undefined && problem === "not-found" && series.posted > 0) {
      Object.assign(series, { posted: 0, name: eventName(series.event.regarding) });
      this.#queue.add(key);
      return;
    }
    this.#warn(error);
    const isRetried = !isLast && (isRetryable || problem === "conflict");
    if (!isRetried) this.#forget(key, "failed");
  }

  /** An event whose first post was lost is lost; one that was only not updated is not. */
  #forget(key: string, outcome: "dropped" | "failed"): void {
    if (this.#series.get(key)?.posted === 0) this.#counts[outcome] += 1;
    this.#series.delete(key);
    this.#queue.forget(key);
  }

  /** Once until posting recovers, and not for each event of a namespace that is being deleted. */
  #warn(error: unknown): void {
    const { clock, logger } = this.#options;
    if (this.#hasWarned || clock.monotonic() < this.#warnAgainMs) return;
    logger.warn({ reason: describeThrown(error) }, "Kubernetes events cannot be posted");
    this.#hasWarned = true;
    this.#warnAgainMs = clock.monotonic() + WARN_MS;
  }
}

function keyOf({ regarding, reason, action, subject = "" }: NodeEvent): string {
  return JSON.stringify([regarding, reason, action, subject]);
}
