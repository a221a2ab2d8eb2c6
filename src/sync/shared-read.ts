import type { Clock } from "./clock.ts";
import { orAborted } from "./deadlines.ts";

/** What is read, and how old an answer may be. */
export interface SharedReadOptions<Value> {
  /** One read; it bounds its own time. */
  readonly read: () => Promise<Value>;
  /**
   * Without it every answer was read after the call: callers that come during a read share the next one. With it they
   * share the running read too, and its answer, failures included, until that is so many milliseconds old.
   */
  readonly maxAgeMs?: number;
  readonly clock?: Pick<Clock, "monotonic">;
}

/** One read for all callers that come at the same time; at most one runs. */
export class SharedRead<Value> {
  readonly #options: SharedReadOptions<Value>;
  #running: Promise<Value> | undefined;
  /** Asked for and not begun. */
  #next: Promise<Value> | undefined;
  #kept: { readonly answer: Promise<Value>; readonly doneMs: number } | undefined;

  constructor(options: SharedReadOptions<Value>) {
    this.#options = options;
  }

  /**
   * The answer. @throws what the read throws, and the signal's reason when that fires first
   * @param signal ends this caller's wait, not the read
   */
  get(signal?: AbortSignal): Promise<Value> {
    const answer = this.#shared() ?? this.#start();
    return signal === undefined ? answer : orAborted(answer, signal);
  }

  /** Whether a caller of now would share an answer that is kept, or a read that has begun. */
  get isFresh(): boolean {
    return this.#shared() !== undefined;
  }

  #shared(): Promise<Value> | undefined {
    const { maxAgeMs } = this.#options;
    if (this.#next !== undefined || maxAgeMs === undefined) return this.#next;
    if (this.#running !== undefined) return this.#running;
    const isKept = this.#kept !== undefined && this.#nowMs() - this.#kept.doneMs < maxAgeMs;
    return isKept ? this.#kept?.answer : undefined;
  }

  /** Begins when the running read is over, and not before all that ask in the same moment have asked. */
  #start(): Promise<Value> {
    const begin = () => {
      this.#next = undefined;
      this.#running = answer;
      return this.#options.read();
    };
    const answer: Promise<Value> = Promise.resolve(this.#running).then(begin, begin);
    const end = () => {
      this.#running = undefined;
      if (this.#options.maxAgeMs !== undefined) this.#kept = { answer, doneMs: this.#nowMs() };
    };
    answer.then(end, end);
    this.#next = answer;
    return answer;
  }

  #nowMs(): number {
    return this.#options.clock?.monotonic() ?? performance.now();
  }
}
