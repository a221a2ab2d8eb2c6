import { Refusal, type Stored, type StoreEvent } from "../stand-in/api-server/object-store.ts";
import { eventSeenBy, selects } from "../stand-in/api-server/selection.ts";
import type { Program } from "./machine.ts";
import type { Habits, SimulatedApiServer } from "./simulated-api.ts";

interface WatchOptions {
  readonly server: SimulatedApiServer;
  readonly program: Program;
  readonly habits: Habits;
  readonly collection: string;
  readonly shape: (object: Stored) => Stored;
  readonly query: Readonly<Record<string, string | boolean | undefined>>;
}

type Next = IteratorResult<Buffer, undefined>;

/** The answer to a watch: lines that come late, twice or not at all, in the order of the changes. */
export class SimulatedWatch implements AsyncIterable<Buffer> {
  readonly #options: WatchOptions;
  readonly #lines: Buffer[] = [];
  #waiting: PromiseWithResolvers<Next> | undefined;
  #end: { readonly error: Error | undefined } | undefined;
  #stopFollowing: () => void = () => undefined;
  #lastAtMs = 0;
  #onTheWay = 0;
  /** A partition has swallowed a line: nothing comes any more. */
  #isStalled = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    const { server, collection, query, shape } = options;
    const text = (key: string) => (typeof query[key] === "string" ? { [key]: String(query[key]) } : {});
    const passes = selects({ ...text("fieldSelector"), ...text("labelSelector") });
    const follow = (event: StoreEvent) => {
      const seen = eventSeenBy(event, collection, passes);
      if (seen !== undefined) this.#send({ ...seen, object: shape(seen.object) });
    };
    server.watches.add(this);
    try {
      this.#stopFollowing = server.store.follow(Number(query["resourceVersion"] ?? 0), follow);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#expire(error);
    }
    const seconds = Number(query["timeoutSeconds"] ?? 300);
    server.simulation.after(seconds * 1000, () => {
      if (options.habits.isPartitioned) this.#isStalled = true;
      else this.#finish(undefined);
    });
  }

  get isBehind(): boolean {
    return this.#onTheWay > 0;
  }

  /** Says that the client is too far behind (410), and ends. */
  expire(): void {
    this.#expire(new Refusal(410, "Expired", "too old resource version"));
  }

  /** The connection is cut. */
  cut(): void {
    this.#finish(new Error("the connection was cut"));
  }

  /** After a partition: a connection on which something was sent meanwhile is dead. */
  heal(): void {
    if (this.#isStalled) this.cut();
  }

  sendBookmark(): void {
    const { resourceVersion } = { resourceVersion: String(this.#options.server.store.version) };
    this.#send({ type: "BOOKMARK", object: { kind: "X", apiVersion: "v1", metadata: { resourceVersion } } });
  }

  endWith(signal: AbortSignal): void {
    const onAbort = () => this.#finish(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    const stop = this.#stopFollowing;
    this.#stopFollowing = () => {
      signal.removeEventListener("abort", onAbort);
      stop();
    };
    if (signal.aborted) onAbort();
  }

  destroy(): void {
    this.#finish(new Error("aborted"));
  }

  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined> {
    return {
      next: () => {
        const line = this.#lines.shift();
        if (line !== undefined) return Promise.resolve({ value: line, done: false });
        if (this.#end !== undefined) return ended(this.#end.error);
        this.#waiting = Promise.withResolvers<Next>();
        return this.#waiting.promise;
      },
    };
  }

  #expire(refusal: Refusal): void {
    this.#send({ type: "ERROR", object: refusal.status });
    this.#stopFollowing();
    this.#later(() => this.#finish(undefined));
  }

  #send(event: object): void {
    const { server, habits } = this.#options;
    const { simulation } = server;
    if (this.#end !== undefined) return;
    const line = Buffer.from(`${JSON.stringify(event)}\n`);
    if (simulation.percent(habits.watchCut)) this.#later(() => this.cut());
    const times = simulation.percent(habits.repeated) ? 2 : 1;
    for (let time = 0; time < times; time++) this.#later(() => this.#arrive(line));
  }

  /** In order, each after a lag of its own. */
  #later(act: () => void): void {
    const { server, habits, program } = this.#options;
    const { simulation } = server;
    if (!program.isAlive) this.#finish(undefined);
    this.#lastAtMs = Math.max(this.#lastAtMs, simulation.nowMs + simulation.between(0, habits.watchLagMs));
    this.#onTheWay += 1;
    program.after(this.#lastAtMs - simulation.nowMs, () => {
      this.#onTheWay -= 1;
      if (habits.isPartitioned) this.#isStalled = true;
      else if (!this.#isStalled) act();
    });
  }

  #arrive(line: Buffer): void {
    if (this.#end !== undefined) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#lines.push(line);
    else waiting.resolve({ value: line, done: false });
  }

  #finish(error: Error | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    this.#options.server.watches.delete(this);
    this.#stopFollowing();
    if (!this.#options.program.isAlive) return;
    if (error === undefined) this.#waiting?.resolve({ value: undefined, done: true });
    else this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

function ended(error: Error | undefined): Promise<Next> {
  return error === undefined ? Promise.resolve({ value: undefined, done: true }) : Promise.reject(error);
}
