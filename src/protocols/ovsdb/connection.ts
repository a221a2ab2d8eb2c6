import { connect, type Socket } from "node:net";
import { Failure, systemCode } from "../../failure/failure.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { JsonStream } from "./json-stream.ts";
import { type Message, readMessage } from "./message.ts";

/** Longest message that is accepted; a thousand ports with all that we read of them are about one MiB. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** Where the server listens. */
export interface OvsdbConnectionOptions {
  /** Path of ovsdb-server's unix socket. */
  readonly path: string;
  /** Longest message to accept, in bytes. */
  readonly maxMessageBytes?: number;
  /** Hears calls of the server other than `echo`, such as the `update` of a monitor. */
  readonly onNotification?: (method: string, params: readonly unknown[]) => void;
}

/** One connection to an OVSDB server. Once it is lost it stays lost: {@link OvsdbClient} makes the next. */
export interface OvsdbConnection {
  /**
   * Calls a method and gives its result.
   * @throws Failure dataplane-unavailable when the connection is lost before the answer (what the call did is
   *   unknown then), dataplane-timeout when the signal fires, dataplane-protocol when the server refuses the call
   */
  request(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  readonly lost: AbortSignal;
  close(): void;
}

/**
 * Connects to ovsdb-server.
 * @throws Failure dataplane-unavailable where nobody answers, dataplane-timeout when the signal fires
 */
export async function connectOvsdb(
  options: OvsdbConnectionOptions,
  signal: AbortSignal,
): Promise<OvsdbConnection> {
  const { path } = options;
  const socket = connect({ path });
  const connected = new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", (cause) => reject(unreachable(path, cause)));
  });
  try {
    await orAborted(connected, signal, () => noAnswer(path, "connect", signal));
  } catch (failure) {
    connected.catch(() => undefined);
    socket.destroy();
    throw failure;
  }
  return new Connection(socket, options);
}

interface Pending {
  readonly method: string;
  readonly resolve: (result: unknown) => void;
  readonly reject: (failure: Failure) => void;
}

class Connection implements OvsdbConnection {
  readonly #socket: Socket;
  readonly #options: OvsdbConnectionOptions;
  readonly #pending = new Map<unknown, Pending>();
  readonly #lost = new AbortController();
  #calls = 0;

  constructor(socket: Socket, options: OvsdbConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const stream = new JsonStream(options.maxMessageBytes ?? MAX_MESSAGE_BYTES);
    socket.on("data", (chunk) => {
      try {
        for (const value of stream.push(chunk)) this.#take(readMessage(value));
      } catch (thrown) {
        this.#lose(thrown instanceof Failure ? thrown : unreachable(options.path, thrown));
      }
    });
    socket.on("error", (cause) => this.#lose(unreachable(options.path, cause)));
    socket.on("close", () => this.#lose(unreachable(options.path, "the server closed the connection")));
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async request(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    if (this.#lost.signal.aborted) throw this.#lost.signal.reason;
    if (signal.aborted) throw noAnswer(this.#options.path, method, signal);
    this.#calls += 1;
    const id = this.#calls;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { method, resolve, reject });
    this.#send({ method, params, id });
    return orAborted(promise, signal, () => {
      this.#pending.delete(id);
      if (method === "transact") this.#send({ method: "cancel", params: [id], id: null });
      return noAnswer(this.#options.path, method, signal);
    });
  }

  close(): void {
    this.#lose(unreachable(this.#options.path, "we closed the connection"));
  }

  #send(message: object): void {
    this.#socket.write(JSON.stringify(message));
  }

  #take(message: Message): void {
    if (message.kind === "call") {
      this.#answer(message);
      return;
    }
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.error === null) pending?.resolve(message.result);
    // Without a pending call it is the answer to one that was given up.
    else
      pending?.reject(
        new Failure({
          code: "dataplane-protocol",
          what: `the switch's database refused ${pending.method}: ${JSON.stringify(message.error)}`,
          where: this.#options.path,
        }),
      );
  }

  #answer(call: Extract<Message, { kind: "call" }>): void {
    if (call.method === "echo") this.#send({ result: call.params, error: null, id: call.id });
    else if (call.id === null) this.#options.onNotification?.(call.method, call.params);
    else this.#send({ result: null, error: "unknown method", id: call.id });
  }

  #lose(why: Failure): void {
    if (this.#lost.signal.aborted) return;
    this.#lost.abort(why);
    this.#socket.destroy();
    for (const pending of this.#pending.values()) pending.reject(why);
    this.#pending.clear();
  }
}

function unreachable(path: string, cause: unknown): Failure {
  const reason = systemCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new Failure({
    code: "dataplane-unavailable",
    what: `the switch's database cannot be reached: ${reason}`,
    where: path,
    fix: "check that ovsdb-server runs and that its socket is mounted into this pod",
    cause,
  });
}

function noAnswer(path: string, method: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: `the switch's database did not answer ${method} in time`,
    where: path,
    fix: "check that ovsdb-server is not overloaded or stopped",
    cause: signal.reason,
  });
}
