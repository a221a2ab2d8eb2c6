// DELs that are still to come: tried again from disk until they succeed, or until the administrator gives them up.
import { type Failure, toFailure } from "../failure/failure.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import { exponentialBackoff, WorkQueue } from "../sync/work-queue.ts";
import { delEnding, fieldsOf, type InterfacesOptions, isEnding } from "./attach-interface.ts";
import { type Attachment, type InterfaceRecord, interfaceKey } from "./interface-record.ts";

/** Between tries of a DEL that fails: from a second to a minute, because a deleted pod stays until it succeeds. */
const BACKOFF = exponentialBackoff(1_000, 60_000);
const WORKERS = 4;
/** A DEL that has failed for so long is stuck: the claim's status, an event and a metric say so. */
const STUCK_MS = 10 * 60_000;

/** DELs of one interface that fail. */
export interface FailingDel {
  readonly record: InterfaceRecord;
  /** Of the sandboxes that they are for. */
  readonly attachments: readonly Attachment[];
  /** The last one. */
  readonly failure: Failure;
  /** When the first of them was tried first, in milliseconds since the epoch. */
  readonly since: number;
  /** Whether that is ten minutes ago. */
  readonly isStuck: boolean;
}

/** The DELs of a node that are to be tried again, by the keys of their records. */
export class PendingDels {
  readonly #options: InterfacesOptions;
  readonly #locks: KeyedMutex;
  readonly #queue: WorkQueue;
  readonly #failures = new Map<string, Failure>();

  /** @param locks by the pods' UIDs */
  constructor(options: InterfacesOptions, locks: KeyedMutex) {
    this.#options = options;
    this.#locks = locks;
    this.#queue = new WorkQueue({
      work: (key) => this.#remove(key),
      backoffMs: BACKOFF,
      onFailure: (key, error) => this.#note(key, error),
      workers: WORKERS,
      clock: options.clock,
    });
  }

  /** Begins with what is left on disk. */
  async run(signal: AbortSignal): Promise<void> {
    for (const record of this.#options.records.list())
      if (record.released || record.attachments.some(isEnding)) this.add(interfaceKey(record));
    await this.#queue.run(signal);
  }

  /** Tries at once. */
  add(key: string): void {
    this.#queue.add(key);
  }

  /** Resolves when it is not about to be tried; when it is to be tried again later, too. */
  whenTried(key: string): Promise<void> {
    return this.#queue.whenIdle(key);
  }

  /** A try elsewhere has failed. */
  failed(record: InterfaceRecord, error: unknown): void {
    this.#note(interfaceKey(record), error);
    this.#queue.addAfter(interfaceKey(record), BACKOFF(1));
  }

  /** Nothing is left to be removed. */
  ended(record: InterfaceRecord): void {
    if (!this.#failures.delete(interfaceKey(record))) return;
    this.#queue.forget(interfaceKey(record));
    this.#options.reportDel(record);
  }

  failureOf(key: string): Failure | undefined {
    return this.#failures.get(key);
  }

  /** In the order in which they failed first. */
  failing(): readonly FailingDel[] {
    const { records, clock } = this.#options;
    return [...this.#failures].flatMap(([key, failure]) => {
      const record = records.get(key);
      const attachments = record?.attachments.filter(isEnding) ?? [];
      if (record === undefined || attachments.length === 0) return [];
      const since = Math.min(...attachments.map(({ endedAt = clock.now() }) => endedAt));
      return [{ record, attachments, failure, since, isStuck: clock.now() - since >= STUCK_MS }];
    });
  }

  /**
   * Drops failing DELs from the records; nothing further runs.
   * @returns what was given up
   */
  async giveUp(isWanted: (record: InterfaceRecord) => boolean): Promise<readonly FailingDel[]> {
    const { records, logger } = this.#options;
    const givenUp: FailingDel[] = [];
    for (const { record: stale } of this.failing().filter(({ record }) => isWanted(record))) {
      const key = interfaceKey(stale);
      await this.#locks.run({ key: stale.pod.uid, what: "giving up a DEL" }, async () => {
        // It may have succeeded meanwhile.
        const failing = this.failing().find(({ record }) => interfaceKey(record) === key);
        if (failing === undefined) return;
        const { record, failure } = failing;
        const attachments = record.attachments.filter((one) => !isEnding(one));
        if (record.released) await records.remove(key);
        else await records.put({ ...record, attachments });
        this.ended(record);
        givenUp.push(failing);
        logger.warn({ ...fieldsOf(record), err: failure }, "DEL was given up");
      });
    }
    return givenUp;
  }

  async #remove(key: string): Promise<void> {
    const { records } = this.#options;
    const { pod } = records.get(key) ?? {};
    if (pod === undefined) return;
    await this.#locks.run({ key: pod.uid, what: "DEL" }, async () => {
      const record = records.get(key);
      if (record === undefined) return;
      await delEnding(record, this.#options);
      if (record.released) await records.remove(key, ({ released }) => released);
      this.ended(record);
    });
  }

  #note(key: string, error: unknown): void {
    const { logger, reportDel } = this.#options;
    this.#failures.set(key, toFailure(error));
    const failing = this.failing().find(({ record }) => interfaceKey(record) === key);
    if (failing === undefined) return;
    const { record, isStuck } = failing;
    logger[isStuck ? "error" : "warn"](
      { ...fieldsOf(record), err: error },
      "an interface of a claim cannot be removed, it is tried again",
    );
    if (isStuck) reportDel(record);
  }
}
