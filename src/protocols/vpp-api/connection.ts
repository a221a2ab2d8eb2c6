import { connect, type Socket } from "node:net";
import { Failure, systemCode } from "../../failure/failure.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { broken } from "./broken.ts";
import type { Call, Dump, Event } from "./call.ts";
import { decodeAnswer, decodeHeader, decodeWelcome, encodeHello, encodeRequest } from "./codec.ts";
import type { Layout, ValuesOf } from "./fields.ts";
import { FrameStream, frame } from "./frame.ts";
import { MessageTable } from "./message-table.ts";
import { controlPing } from "./messages.ts";

/** Longest message that is accepted; the table of all plugins' messages is about 400 KiB. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const CLIENT_NAME = "kube-vhostuser";

/** Where VPP listens. */
export interface VppConnectionOptions {
  /** Path of VPP's API socket. */
  readonly path: string;
  /** Longest message to accept, in bytes. */
  readonly maxMessageBytes?: number;
}

/**
 * One connection to VPP. Once it is lost it stays lost, and nothing that was learnt over it (interface indices,
 * message numbers) has a meaning any more. Requests of one turn of the event loop go out in one write, and VPP
 * handles them in their order: it either gets all of them or, where it dies before, forgets everything anyway.
 */
export interface VppConnection {
  /**
   * Asks for one thing. A negative `retval` is an answer, not an error.
   * @throws Failure dataplane-unavailable when the connection is lost before the answer (what the request did is
   *   unknown then), dataplane-timeout when the signal fires, dataplane-misconfigured where this VPP lacks the message,
   *   invalid-request for a value that does not fit, dataplane-protocol
   */
  request<Ask extends Layout, Answer extends Layout>(
    call: Call<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<ValuesOf<Answer>>;
  /** Asks for all details of a kind; fails like {@link VppConnection.request}. */
  dump<Ask extends Layout, Answer extends Layout>(
    dump: Dump<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<readonly ValuesOf<Answer>[]>;
  /** Whether this VPP has a call in a form that we know. */
  knows(call: Call<Layout, Layout>): boolean;
  /** Hears an event from now on; VPP must have been asked to send it. A VPP that lacks it never sends it. */
  on<Of extends Layout>(event: Event<Of>, listener: (values: ValuesOf<Of>) => void): void;
  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  readonly lost: AbortSignal;
  close(): void;
}

/**
 * Connects to VPP and learns its messages.
 * @throws Failure dataplane-unavailable where nobody answers, dataplane-timeout when the signal fires,
 *   dataplane-protocol where it is not VPP that answers
 */
export async function connectVpp(options: VppConnectionOptions, signal: AbortSignal): Promise<VppConnection> {
  const connection = new Connection(connect({ path: options.path }), options);
  try {
    await orAborted(connection.ready, signal, () => noAnswer(options.path, "sockclnt_create", signal));
    return connection;
  } catch (failure) {
    connection.close();
    throw failure;
  }
}

interface Pending {
  /** Takes a message of this context; true when it was the last. */
  readonly take: (id: number, message: Buffer) => boolean;
  readonly reject: (failure: Failure) => void;
}

interface Session {
  readonly clientIndex: number;
  readonly table: MessageTable;
}

class Connection implements VppConnection {
  readonly ready: Promise<void>;
  readonly #options: VppConnectionOptions;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Map<number, (message: Buffer) => void>();
  readonly #lost = new AbortController();
  #outbox: Buffer[] = [];
  #session: Session | undefined;
  #contexts = 0;

  constructor(socket: Socket, options: VppConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const stream = new FrameStream(options.maxMessageBytes ?? MAX_MESSAGE_BYTES);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ready = promise;
    this.lost.addEventListener("abort", () => reject(this.lost.reason), { once: true });
    promise.catch(() => undefined);
    socket.on("data", (chunk) => {
      try {
        for (const message of stream.push(chunk)) {
          if (this.#session !== undefined) this.#take(message);
          else {
            this.#session = readWelcome(message);
            resolve();
          }
        }
      } catch (thrown) {
        this.#lose(thrown instanceof Failure ? thrown : unreachable(options.path, thrown));
      }
    });
    socket.on("error", (cause) => this.#lose(unreachable(options.path, cause)));
    socket.on("close", () => this.#lose(unreachable(options.path, "VPP closed the connection")));
    socket.write(frame(encodeHello(CLIENT_NAME, this.#nextContext())));
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async request<Ask extends Layout, Answer extends Layout>(
    call: Call<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<ValuesOf<Answer>> {
    const { promise, resolve, reject } = Promise.withResolvers<ValuesOf<Answer>>();
    const [{ answer }] = call.variants;
    const context = this.#ask(call, values, signal, (answerId) => ({
      reject,
      take(id, message) {
        if (id !== answerId) throw broken(`message ${id} where ${answer.name} was to come`);
        resolve(decodeAnswer(answer, message));
        return true;
      },
    }));
    return this.#answered(promise, [context], call.variants[0].ask.name, signal);
  }

  async dump<Ask extends Layout, Answer extends Layout>(
    dump: Dump<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<readonly ValuesOf<Answer>[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly ValuesOf<Answer>[]>();
    const [{ answer }] = dump.variants;
    const found: ValuesOf<Answer>[] = [];
    const asked = this.#ask(dump, values, signal, (answerId) => ({
      reject,
      take(id, message) {
        if (id !== answerId) throw broken(`message ${id} where ${answer.name} was to come`);
        found.push(decodeAnswer(answer, message));
        return false;
      },
    }));
    // VPP works in order, so what comes after the answer to this ping is not of the dump.
    const end = this.#ask(controlPing, {}, signal, (answerId) => ({
      reject,
      take: (id) => {
        if (id !== answerId) throw broken(`message ${id} where control_ping_reply was to come`);
        this.#pending.delete(asked);
        resolve(found);
        return true;
      },
    }));
    return this.#answered(promise, [asked, end], dump.variants[0].ask.name, signal);
  }

  knows(call: Call<Layout, Layout>): boolean {
    return this.#session?.table.find(call) !== undefined;
  }

  on<Of extends Layout>(event: Event<Of>, listener: (values: ValuesOf<Of>) => void): void {
    const id = this.#session?.table.eventId(event);
    if (id !== undefined) this.#listeners.set(id, (message) => listener(decodeAnswer(event, message)));
  }

  close(): void {
    this.#lose(unreachable(this.#options.path, "we closed the connection"));
  }

  /** Sends a request; the context that it went out under. */
  #ask<Ask extends Layout>(
    call: Call<Ask, Layout>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
    pending: (answerId: number) => Pending,
  ): number {
    if (this.lost.aborted) throw this.lost.reason;
    if (signal.aborted) throw noAnswer(this.#options.path, call.variants[0].ask.name, signal);
    if (this.#session === undefined) throw new TypeError("connectVpp waits for the session");
    const { variant, askId, answerId } = this.#session.table.resolve(call);
    const context = this.#nextContext();
    const header = { id: askId, client_index: this.#session.clientIndex, context };
    this.#send(encodeRequest(variant.ask, header, values));
    this.#pending.set(context, pending(answerId));
    return context;
  }

  #answered<Value>(
    promise: Promise<Value>,
    contexts: readonly number[],
    name: string,
    signal: AbortSignal,
  ): Promise<Value> {
    return orAborted(promise, signal, () => {
      for (const context of contexts) this.#pending.delete(context);
      return noAnswer(this.#options.path, name, signal);
    });
  }

  #send(message: Buffer): void {
    if (this.#outbox.length === 0) {
      setImmediate(() => {
        this.#socket.write(Buffer.concat(this.#outbox));
        this.#outbox = [];
      });
    }
    this.#outbox.push(frame(message));
  }

  #take(message: Buffer): void {
    const { id, context } = decodeHeader(message);
    const listener = this.#listeners.get(id);
    if (listener !== undefined) {
      listener(message);
      return;
    }
    // Without a pending request it is the answer to one that was given up, or an event that nobody wants.
    if (this.#pending.get(context)?.take(id, message) === true) this.#pending.delete(context);
  }

  #nextContext(): number {
    this.#contexts = (this.#contexts % 0xffff_ffff) + 1;
    return this.#contexts;
  }

  #lose(why: Failure): void {
    if (this.lost.aborted) return;
    this.#lost.abort(why);
    this.#socket.destroy();
    for (const pending of this.#pending.values()) pending.reject(why);
    this.#pending.clear();
  }
}

function readWelcome(message: Buffer): Session {
  const { response, index, message_table } = decodeWelcome(message);
  if (response < 0) throw broken(`refusal ${response} of our connection`);
  return { clientIndex: index, table: new MessageTable(message_table) };
}

function unreachable(path: string, cause: unknown): Failure {
  const reason = systemCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new Failure({
    code: "dataplane-unavailable",
    what: `VPP cannot be reached: ${reason}`,
    where: path,
    fix: "check that VPP runs and that its API socket is mounted into this pod",
    cause,
  });
}

function noAnswer(path: string, name: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: `VPP did not answer ${name} in time`,
    where: path,
    fix: "check that VPP's main thread is not stuck",
    cause: signal.reason,
  });
}
