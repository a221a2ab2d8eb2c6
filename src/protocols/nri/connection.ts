// One connection to the runtime: registers the plugin there, and answers what the runtime calls.
import { Failure, toFailure } from "../../failure/failure.ts";
import { sendable } from "../../grpc/status.ts";
import { type Peer, Session } from "../session.ts";
import {
  decodeCall,
  decodeRequest,
  decodeResponse,
  encodeAnswer,
  encodeRegistration,
  encodeResponse,
  PLUGIN_SERVICE,
  type PluginCall,
  type TtrpcResponse,
} from "./messages.ts";
import { framesOf, muxFrames, PLUGIN_CONNECTION, RUNTIME_CONNECTION } from "./mux.ts";
import {
  encodeMessage,
  REQUEST,
  RESPONSE,
  STATUS,
  TTRPC_MAX_BYTES,
  type TtrpcMessage,
  ttrpcMessages,
} from "./ttrpc.ts";

/** Calls that are served at a time; a runtime makes one at a time. */
const CALLS_MAX = 256;

/** An error with the code that the runtime is to see. */
export class CallError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** How calls of the runtime are served. */
export interface ConnectionOptions {
  /** Path of the runtime's NRI socket. */
  readonly socketPath: string;
  /**
   * Answers a call, by the names of proto/nri/nri.proto. What it throws the runtime gets as an error.
   * @param timeoutMs until the runtime gives up, where it says so
   */
  serve(call: PluginCall, timeoutMs: number | undefined): Promise<object>;
}

interface Incoming extends TtrpcMessage {
  readonly connection: number;
}

/** A connection to the runtime. Once it is lost it stays lost. */
export class NriConnection {
  readonly #options: ConnectionOptions;
  readonly #session: Session<Incoming, Buffer>;
  #lastStream = 0;
  #running = 0;

  /** Dials at once. */
  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#session = new Session({
      peer: peerOf(options.socketPath),
      stream: incomingStream(),
      onMessage: (message) => this.#receive(message),
      maxHeldBytes: TTRPC_MAX_BYTES,
    });
  }

  /** Fires, with the Failure as its reason, once the connection is lost or closed. */
  get lost(): AbortSignal {
    return this.#session.lost;
  }

  /**
   * Waits for the connection and registers the plugin, after which the runtime calls it.
   * @param index two digits: plugins are called in this order
   * @throws Failure runtime-unavailable, runtime-protocol (refused)
   */
  async register(name: string, index: string, signal: AbortSignal): Promise<void> {
    await this.#session.start(this.#session.connected, "the connection", signal);
    const exchange = {
      what: "the registration",
      encode: (nextId: () => number) =>
        framesOf(
          RUNTIME_CONNECTION,
          encodeMessage({ type: REQUEST, stream: 2 * nextId() - 1, data: encodeRegistration(name, index) }),
        ),
      onReply: (_id: number, data: Buffer, done: (response: TtrpcResponse) => void) =>
        done(decodeResponse(data)),
    };
    const { status } = await this.#session.request(exchange, signal);
    if (!status?.code) return;
    throw new Failure({
      code: "runtime-protocol",
      what: `the container runtime refused to register plugin ${index}-${name}: ${status.message}`,
      where: this.#options.socketPath,
      fix: "the runtime's log says why",
    });
  }

  close(): void {
    this.#session.close();
  }

  #receive({ connection, type, stream, data }: Incoming): void {
    if (connection === RUNTIME_CONNECTION && type === RESPONSE)
      this.#session.reply((stream + 1) / 2, data, data.length);
    else if (connection === PLUGIN_CONNECTION && type === REQUEST) void this.#answer(stream, data);
  }

  async #answer(stream: number, data: Buffer): Promise<void> {
    let response: TtrpcResponse;
    this.#running += 1;
    try {
      response = { payload: await this.#serve(stream, data) };
    } catch (error) {
      const [code, message] =
        error instanceof CallError ? [error.code, error.message] : [STATUS.unknown, toFailure(error).message];
      response = { status: { code, message: sendable(message) } };
    }
    this.#running -= 1;
    const message = encodeMessage({ type: RESPONSE, stream, data: encodeResponse(response) });
    this.#session.send(framesOf(PLUGIN_CONNECTION, message));
  }

  async #serve(stream: number, data: Buffer): Promise<Buffer> {
    if (stream % 2 === 0 || stream <= this.#lastStream)
      throw new CallError(STATUS.invalidArgument, `stream ${stream} is not a new one of a client`);
    this.#lastStream = stream;
    if (this.#running > CALLS_MAX)
      throw new CallError(STATUS.resourceExhausted, `more than ${CALLS_MAX} calls at a time`);
    const { service, method, payload, timeout_nano: nanos } = malformedAs(() => decodeRequest(data));
    const call = service === PLUGIN_SERVICE ? malformedAs(() => decodeCall(method, payload)) : undefined;
    if (call === undefined)
      throw new CallError(STATUS.unimplemented, `${service} has no method ${method} here`);
    return encodeAnswer(method, await this.#options.serve(call, nanos > 0 ? nanos / 1e6 : undefined));
  }
}

/** @throws CallError where the bytes are not what they should be */
function malformedAs<Value>(decode: () => Value): Value {
  try {
    return decode();
  } catch (error) {
    throw new CallError(STATUS.invalidArgument, `the request cannot be read: ${toFailure(error).what}`);
  }
}

/** The messages of both connections in a stream of frames; each connection is a stream of bytes of its own. */
function incomingStream(): { push(chunk: Buffer): Iterable<Incoming> } {
  const frames = muxFrames();
  const streams = new Map([PLUGIN_CONNECTION, RUNTIME_CONNECTION].map((id) => [id, ttrpcMessages()]));
  return {
    *push(chunk) {
      for (const { connection, payload } of frames.push(chunk)) {
        for (const message of streams.get(connection)?.push(payload) ?? []) yield { connection, ...message };
      }
    },
  };
}

function peerOf(path: string): Peer {
  return {
    path,
    name: "the container runtime's NRI socket",
    whenUnreachable:
      "check that NRI is enabled in containerd or CRI-O, and that the socket's directory is mounted",
    whenSilent: "check the log of the container runtime",
    code: "runtime-unavailable",
  };
}
