import { connect, type Socket } from "node:net";
import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, systemCode, timeoutFailure, toFailure } from "../failure/failure.ts";
import { orAborted, whenAborted } from "../sync/deadlines.ts";
import { ChunkBuffer } from "./frame-stream.ts";

/** Most that waits for the peer to read it; the largest bundle of flows has some 2 MiB. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024;
/** What our own memory keeps of a reply beside its bytes. */
const REPLY_OVERHEAD_BYTES = 512;

/** The program behind a socket, in the words that failures need. */
export interface Peer {
  /** Path of its unix socket. */
  readonly path: string;
  /** Begins a sentence, for example "VPP". */
  readonly name: string;
  /** What to check where it cannot be reached. */
  readonly whenUnreachable: string;
  /** What to check where it does not answer. */
  readonly whenSilent: string;
  /** Code of the failures of a peer that is away or does not answer; default those of a switch. */
  readonly code?: FailureCode;
}

/** The failure of a peer that is not there, or has gone: what a request did that was under way is unknown. */
export function unreachable(peer: Peer, cause: unknown): Failure {
  const reason = systemCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new Failure({
    code: peer.code ?? "dataplane-unavailable",
    what: `${peer.name} cannot be reached: ${reason}`,
    where: peer.path,
    fix: peer.whenUnreachable,
    cause,
  });
}

/** The failure of a peer that is there and did not answer in time; the signal's own where it carries a Failure. */
export function noAnswer(peer: Peer, what: string, signal: AbortSignal): Failure {
  return timeoutFailure(signal, {
    code: peer.code,
    what: `${peer.name} did not answer ${what} in time`,
    where: peer.path,
    fix: peer.whenSilent,
  });
}

/** What a protocol gives to its session. */
export interface SessionOptions<Message> {
  readonly peer: Peer;
  /** Cuts what comes into messages, and bounds the size of each. */
  readonly stream: { push(chunk: Buffer): Iterable<Message> };
  /** Called with every message, in order. A Failure that it throws ends the session. */
  readonly onMessage: (message: Message) => void;
  /** Most that the replies to unfinished requests may hold of our memory, all together. */
  readonly maxHeldBytes: number;
}

/** A request and how its outcome is made of its replies. */
export interface Exchange<Reply, Value> {
  /** What is asked for, for failures. */
  readonly what: string;
  /** The request's bytes, under as many numbers as it needs. */
  encode(nextId: () => number): Buffer;
  /** Called with the replies to the numbers until it has called `done`. A Failure that it throws ends the session. */
  onReply(id: number, reply: Reply, done: (value: Value) => void): void;
}

interface Waiting<Reply> {
  readonly onReply: (id: number, reply: Reply) => void;
  readonly reject: (failure: Failure) => void;
  heldBytes: number;
}

/**
 * One connection over a unix socket to a program that may be slow, gone or hostile: requests with deadlines, and bounds
 * on what it may make us hold. Once it is lost it stays lost. All that is sent in one round of the event loop goes out
 * in one write, in order.
 */
export class Session<Message, Reply = Message> {
  /** Resolves once the socket is connected. */
  readonly connected: Promise<void>;
  readonly #options: SessionOptions<Message>;
  readonly #socket: Socket;
  readonly #lost = new AbortController();
  readonly #waiting = new Map<number, Waiting<Reply>>();
  readonly #outbox = new ChunkBuffer();
  #heldBytes = 0;
  #ids = 0;

  constructor(options: SessionOptions<Message>) {
    const { peer } = options;
    this.#options = options;
    this.#socket = connect({ path: peer.path });
    this.connected = new Promise((resolve) => this.#socket.once("connect", resolve));
    this.#socket.on("data", (chunk) => this.#receive(chunk));
    this.#socket.on("error", (cause) => this.#lose(unreachable(peer, cause)));
    this.#socket.on("close", () => this.#lose(unreachable(peer, "the connection was closed")));
  }

  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Waits for the greeting; without it the session is closed. @throws Failure as {@link request} */
  async start<Greeting>(greeting: Promise<Greeting>, what: string, signal: AbortSignal): Promise<Greeting> {
    const lost = Promise.withResolvers<never>();
    whenAborted(this.lost, () => lost.reject(this.lost.reason));
    try {
      const first = Promise.race([greeting, lost.promise]);
      return await orAborted(first, signal, () => noAnswer(this.#options.peer, what, signal));
    } catch (failure) {
      this.close();
      throw failure;
    }
  }

  /**
   * Sends a request and waits for its outcome.
   * @throws Failure dataplane-unavailable (the connection is lost: what the request did is unknown), dataplane-timeout
   *   (the signal fired, likewise) or the signal's own Failure, dataplane-protocol, and what `encode` throws
   */
  async request<Value>(exchange: Exchange<Reply, Value>, signal: AbortSignal): Promise<Value> {
    const { peer } = this.#options;
    if (this.lost.aborted) throw this.lost.reason;
    if (signal.aborted) throw noAnswer(peer, exchange.what, signal);
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const ids: number[] = [];
    const end = () => {
      for (const id of ids) this.#waiting.delete(id);
      this.#heldBytes -= waiting.heldBytes;
      waiting.heldBytes = 0;
    };
    const done = (value: Value) => {
      end();
      resolve(value);
    };
    const waiting: Waiting<Reply> = {
      heldBytes: 0,
      reject,
      onReply: (id, reply) => exchange.onReply(id, reply, done),
    };
    const bytes = exchange.encode(() => {
      this.#ids = (this.#ids % 0xffff_ffff) + 1;
      ids.push(this.#ids);
      return this.#ids;
    });
    for (const id of ids) this.#waiting.set(id, waiting);
    this.send(bytes);
    try {
      return await orAborted(promise, signal, () => noAnswer(peer, exchange.what, signal));
    } finally {
      end();
    }
  }

  /**
   * Hands a reply to its request; one to a request that was given up is dropped.
   * @param heldBytes what the request keeps of it until its outcome
   * @throws Failure dataplane-protocol where the replies to unfinished requests hold too much
   */
  reply(id: number, reply: Reply, heldBytes: number): void {
    const waiting = this.#waiting.get(id);
    waiting?.onReply(id, reply);
    if (waiting === undefined || !this.#waiting.has(id)) return;
    waiting.heldBytes += heldBytes + REPLY_OVERHEAD_BYTES;
    this.#heldBytes += heldBytes + REPLY_OVERHEAD_BYTES;
    const { peer, maxHeldBytes } = this.#options;
    if (this.#heldBytes <= maxHeldBytes) return;
    throw new Failure({
      code: peer.code ?? "dataplane-protocol",
      what: `${peer.name} sent an answer without an end: more than ${mebibytes(maxHeldBytes)}`,
      where: peer.path,
      fix: peer.whenSilent,
    });
  }

  /** Sends something that needs no reply. A peer that does not read what it is sent is dropped. */
  send(bytes: Buffer): void {
    if (this.lost.aborted) return;
    if (this.#outbox.size === 0) setImmediate(() => this.#flush());
    this.#outbox.add(bytes);
    if (this.#outbox.size + this.#socket.writableLength <= MAX_UNREAD_BYTES) return;
    const { peer } = this.#options;
    this.#lose(
      new Failure({
        code: peer.code ?? "dataplane-timeout",
        what: `${peer.name} does not read what it is sent: more than ${mebibytes(MAX_UNREAD_BYTES)} wait`,
        where: peer.path,
        fix: peer.whenSilent,
      }),
    );
  }

  close(): void {
    this.#lose(unreachable(this.#options.peer, "we closed the connection"));
  }

  #flush(): void {
    const bytes = this.#outbox.take();
    if (!this.lost.aborted) this.#socket.write(bytes);
  }

  #receive(chunk: Buffer): void {
    try {
      for (const message of this.#options.stream.push(chunk)) {
        if (this.lost.aborted) return;
        this.#options.onMessage(message);
      }
    } catch (thrown) {
      this.#lose(toFailure(thrown));
    }
  }

  #lose(why: Failure): void {
    if (this.lost.aborted) return;
    this.#lost.abort(why);
    this.#socket.destroy();
    for (const waiting of this.#waiting.values()) waiting.reject(why);
    this.#waiting.clear();
  }
}

function mebibytes(bytes: number): string {
  return `${bytes / (1024 * 1024)} MiB`;
}
