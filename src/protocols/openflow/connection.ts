import { connect, type Socket } from "node:net";
import { Failure, systemCode } from "../../failure/failure.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { protocolFailure } from "./byte-reader.ts";
import { readError } from "./error.ts";
import { encodeHello, negotiate } from "./hello.ts";
import {
  encodeMessage,
  MESSAGE,
  type Message,
  MessageStream,
  type Request,
  request,
  type Version,
} from "./message.ts";
import { type BridgePort, readPortStatus, subscribeToPorts } from "./port.ts";

/** Most that the replies to one exchange may have; ten thousand flows of ours have about 2 MiB. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

/** Where the bridge listens and who wants to hear of it. */
export interface OpenflowConnectionOptions {
  /** The bridge's management socket, `<bridge>.mgmt` in Open vSwitch's run directory. */
  readonly path: string;
  /** Hears of ports that came or went. */
  readonly onPort?: ((port: BridgePort) => void) | undefined;
}

/** One connection to a bridge. Once it is lost it stays lost: {@link OpenflowClient} makes the next. */
export interface OpenflowConnection {
  /**
   * Sends requests, waits until the switch has done them all, and gives the replies to each.
   * @throws Failure the first one's that the switch refused (the others were done); dataplane-unavailable and
   *   dataplane-timeout (what was done is unknown then); dataplane-protocol
   */
  exchange(requests: readonly Request[], signal: AbortSignal): Promise<readonly (readonly Message[])[]>;
  /** A number for a bundle that this connection has not used. */
  nextBundle(): number;
  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  readonly lost: AbortSignal;
  close(): void;
}

/**
 * Connects to a bridge and agrees on a version.
 * @throws Failure dataplane-unavailable where nobody answers, dataplane-misconfigured where there is no common version,
 *   dataplane-timeout when the signal fires, dataplane-protocol
 */
export async function connectOpenflow(
  options: OpenflowConnectionOptions,
  signal: AbortSignal,
): Promise<OpenflowConnection> {
  const connection = new Connection(connect({ path: options.path }), options);
  try {
    await orAborted(connection.ready, signal, () => noAnswer(options.path, signal));
    if (options.onPort !== undefined) await connection.exchange(subscribeToPorts, signal);
    return connection;
  } catch (failure) {
    connection.close();
    throw failure;
  }
}

interface Pending {
  /** By number of request, with the replies so far. */
  readonly replies: ReadonlyMap<number, Message[]>;
  readonly done: PromiseWithResolvers<void>;
  bytes: number;
  refused?: Failure;
}

class Connection implements OpenflowConnection {
  readonly #socket: Socket;
  readonly #options: OpenflowConnectionOptions;
  readonly #lost = new AbortController();
  readonly #ready = Promise.withResolvers<Version>();
  /** By the number of each request, and of the barrier that ends its exchange. */
  readonly #pending = new Map<number, Pending>();
  #version: Version | undefined;
  #requests = 0;
  #bundles = 0;

  constructor(socket: Socket, options: OpenflowConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#ready.promise.catch(() => undefined); // nobody may be waiting any more
    const stream = new MessageStream();
    socket.on("connect", () => socket.write(encodeHello()));
    socket.on("data", (chunk) => {
      try {
        for (const message of stream.push(chunk)) if (!this.#lost.signal.aborted) this.#take(message);
      } catch (thrown) {
        this.#lose(thrown instanceof Failure ? thrown : unreachable(options.path, thrown));
      }
    });
    socket.on("error", (cause) => this.#lose(unreachable(options.path, cause)));
    socket.on("close", () => this.#lose(unreachable(options.path, "the switch closed the connection")));
  }

  /** Resolves once both sides have agreed on a version. */
  get ready(): Promise<Version> {
    return this.#ready.promise;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  nextBundle(): number {
    this.#bundles += 1;
    return this.#bundles;
  }

  async exchange(
    requests: readonly Request[],
    signal: AbortSignal,
  ): Promise<readonly (readonly Message[])[]> {
    const version = await this.#ready.promise;
    if (this.#lost.signal.aborted) throw this.#lost.signal.reason;
    if (signal.aborted) throw noAnswer(this.#options.path, signal);
    const sent = [...requests, request(MESSAGE.barrierRequest)].map((each) => {
      this.#requests = (this.#requests % 0xffffffff) + 1;
      return { xid: this.#requests, bytes: each(version, this.#requests) };
    });
    const replies = new Map(sent.slice(0, -1).map(({ xid }) => [xid, []]));
    const pending: Pending = { replies, done: Promise.withResolvers(), bytes: 0 };
    for (const { xid } of sent) this.#pending.set(xid, pending);
    try {
      this.#socket.write(Buffer.concat(sent.map(({ bytes }) => bytes)));
      await orAborted(pending.done.promise, signal, () => noAnswer(this.#options.path, signal));
    } finally {
      for (const { xid } of sent) this.#pending.delete(xid);
    }
    if (pending.refused !== undefined) throw pending.refused;
    return [...replies.values()];
  }

  close(): void {
    this.#lose(unreachable(this.#options.path, "we closed the connection"));
  }

  #take(message: Message): void {
    if (message.type === MESSAGE.echoRequest) {
      this.#socket.write(encodeMessage(message.version, MESSAGE.echoReply, message.xid, message.body));
    } else if (this.#version === undefined) {
      this.#version = negotiate(message);
      this.#ready.resolve(this.#version);
    } else if (message.version !== this.#version) {
      throw message.type === MESSAGE.error
        ? readError(message.body)
        : protocolFailure(`it changed its version from ${this.#version} to ${message.version}`);
    } else if (message.type === MESSAGE.portStatus) this.#options.onPort?.(readPortStatus(message));
    else this.#answer(message);
  }

  #answer(message: Message): void {
    const pending = this.#pending.get(message.xid);
    if (pending === undefined) return; // to a request that was given up, or nothing that we asked for
    const replies = pending.replies.get(message.xid);
    if (message.type === MESSAGE.error) pending.refused ??= readError(message.body);
    else if (replies !== undefined) {
      replies.push(message);
      pending.bytes += message.body.length;
      if (pending.bytes > MAX_REPLY_BYTES) throw protocolFailure("its answer does not end");
      return;
    }
    // The barrier's own answer, be it an error, is the last.
    if (replies === undefined) pending.done.resolve();
  }

  #lose(why: Failure): void {
    if (this.#lost.signal.aborted) return;
    this.#lost.abort(why);
    this.#socket.destroy();
    this.#ready.reject(why);
    for (const pending of this.#pending.values()) pending.done.reject(why);
    this.#pending.clear();
  }
}

function unreachable(path: string, cause: unknown): Failure {
  const reason = systemCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new Failure({
    code: "dataplane-unavailable",
    what: `the bridge cannot be reached by OpenFlow: ${reason}`,
    where: path,
    fix: "check that ovs-vswitchd runs, that the bridge exists and that its run directory is mounted into this pod",
    cause,
  });
}

function noAnswer(path: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: "the bridge did not answer by OpenFlow in time",
    where: path,
    fix: "check that ovs-vswitchd is not overloaded or stopped",
    cause: signal.reason,
  });
}
