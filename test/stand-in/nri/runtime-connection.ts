// The runtime's end of one NRI connection, as strict as Go's ttrpc and multiplexer are. It shares no code with the plugin's end.
import type { Socket } from "node:net";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";

const ttrpc = methodOf(loadService("nri/ttrpc.proto", "ttrpc.Messages").definition, "Call");
const services = {
  Plugin: loadService("nri/nri.proto", "nri.pkg.api.v1alpha1.Plugin").definition,
  Runtime: loadService("nri/nri.proto", "nri.pkg.api.v1alpha1.Runtime").definition,
};

const MUX_HEADER = 8;
const TTRPC_HEADER = 10;
const DATA_MAX = 4 * 1024 * 1024;
/** Go's bufio.Reader, into which ttrpc reads headers: a frame that does not fit is ENOMEM. */
const BUFIO = 4096;

/** A call that the plugin refused. */
export class CallStatus extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** How a message is cut on its way to the plugin. */
export type Cut = (bytes: Buffer) => readonly Buffer[];

/** What a connection reports. */
export interface RuntimeConnectionOptions {
  readonly socket: Socket;
  readonly cut: Cut;
  /** @returns what the answer waits for */
  register(request: { readonly plugin_name: string; readonly plugin_idx: string }): Promise<void> | undefined;
  closed(why: string): void;
}

/** One accepted connection. */
export class RuntimeConnection {
  readonly #options: RuntimeConnectionOptions;
  readonly #waiting = new Map<number, PromiseWithResolvers<Buffer>>();
  /** What came of a message that is not whole, by connection. */
  readonly #partial = new Map<number, Buffer>();
  #received = Buffer.alloc(0);
  #nextStream = 1;
  #lastStream = 0;
  #isClosed = false;
  /** Bytes of each frame that the plugin sent. */
  readonly frames: number[] = [];

  constructor(options: RuntimeConnectionOptions) {
    this.#options = options;
    const { socket } = options;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => this.close("the plugin closed the socket"));
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  close(why: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.socket.destroy();
    for (const { reject } of this.#waiting.values()) reject(new Error("ttrpc: closed"));
    this.#options.closed(why);
  }

  /** Calls the plugin's service. @throws CallStatus, or an Error where the connection ended */
  async call(method: string, request: object, timeoutMs: number): Promise<Record<string, unknown>> {
    const payload = methodOf(services.Plugin, method).requestSerialize(request);
    const service = "nri.pkg.api.v1alpha1.Plugin";
    const data = await this.callRaw({ service, method, payload, timeout_nano: timeoutMs * 1e6 });
    const { status, payload: answer } = ttrpc.responseDeserialize(data);
    if (status !== null && status.code !== 0) throw new CallStatus(status.code, status.message);
    return methodOf(services.Plugin, method).responseDeserialize(answer);
  }

  /** Sends a request as it is. @returns the data of the response */
  callRaw(request: object): Promise<Buffer> {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    const waiting = Promise.withResolvers<Buffer>();
    this.#waiting.set(stream, waiting);
    if (this.#isClosed) waiting.reject(new Error("ttrpc: closed"));
    this.#send(1, 1, stream, ttrpc.requestSerialize(request));
    return waiting.promise;
  }

  /** Bytes as they are, for what no runtime sends. */
  sendRaw(bytes: Buffer): void {
    this.#options.socket.write(bytes);
  }

  #send(connection: number, type: number, stream: number, data: Buffer): void {
    const message = Buffer.alloc(TTRPC_HEADER + data.length);
    message.writeUInt32BE(data.length, 0);
    message.writeUInt32BE(stream, 4);
    message.writeUInt8(type, 8);
    data.copy(message, TTRPC_HEADER);
    // As Go's bufio.Writer does: what is larger goes out in several writes, each of them a frame.
    const first = Buffer.alloc(MUX_HEADER);
    first.writeUInt32BE(connection, 0);
    first.writeUInt32BE(Math.min(message.length, BUFIO), 4);
    const rest = Buffer.alloc(MUX_HEADER);
    rest.writeUInt32BE(connection, 0);
    rest.writeUInt32BE(message.length - BUFIO > 0 ? message.length - BUFIO : 0, 4);
    const parts = [first, message.subarray(0, BUFIO)];
    if (message.length > BUFIO) parts.push(rest, message.subarray(BUFIO));
    for (const piece of this.#options.cut(Buffer.concat(parts))) this.#options.socket.write(piece);
  }

  #receive(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (!this.#isClosed && this.#received.length >= MUX_HEADER) {
      const size = this.#received.readUInt32BE(4);
      if (this.#received.length < MUX_HEADER + size) return;
      const connection = this.#received.readUInt32BE(0);
      const frame = this.#received.subarray(MUX_HEADER, MUX_HEADER + size);
      this.#received = this.#received.subarray(MUX_HEADER + size);
      this.frames.push(size);
      try {
        this.#read(connection, frame);
      } catch (error) {
        this.close((error as Error).message);
      }
    }
  }

  #read(connection: number, frame: Buffer): void {
    if (connection !== 1 && connection !== 2) return;
    const partial = this.#partial.get(connection);
    if (partial === undefined && frame.length > BUFIO)
      throw new Error("ENOMEM: a frame does not fit the reader");
    const bytes = partial === undefined ? frame : Buffer.concat([partial, frame]);
    const length = bytes.length < TTRPC_HEADER ? 0 : bytes.readUInt32BE(0);
    if (length > DATA_MAX) throw new Error("ttrpc: message too large");
    const end = TTRPC_HEADER + length;
    if (bytes.length > end) throw new Error("panic: a frame has bytes of the next message");
    if (bytes.length < end) this.#partial.set(connection, bytes);
    else {
      this.#partial.delete(connection);
      if (connection === 1) this.#takeAnswer(bytes);
      else this.#serve(bytes);
    }
  }

  #takeAnswer(message: Buffer): void {
    const { stream, type, data } = partsOf(message);
    const waiting = this.#waiting.get(stream);
    if (type !== 2 || waiting === undefined) throw new Error(`an answer of type ${type} to stream ${stream}`);
    this.#waiting.delete(stream);
    waiting.resolve(data);
  }

  #serve(message: Buffer): void {
    const { stream, type, data } = partsOf(message);
    if (type !== 1) throw new Error(`a request of type ${type}`);
    if (stream % 2 === 0 || stream <= this.#lastStream) throw new Error(`a reused or even stream ${stream}`);
    this.#lastStream = stream;
    const { answer, after } = this.#answer(ttrpc.requestDeserialize(data));
    const send = () => this.#send(2, 2, stream, ttrpc.responseSerialize(answer));
    if (after === undefined) send();
    else void after.then(send);
  }

  #answer({ service, method, payload }: RawRequest): { answer: object; after?: Promise<void> | undefined } {
    if (service !== "nri.pkg.api.v1alpha1.Runtime" || method !== "RegisterPlugin")
      return { answer: { status: { code: 12, message: "unimplemented" } } };
    try {
      const request = methodOf(services.Runtime, method).requestDeserialize(payload);
      return { answer: {}, after: this.#options.register(request) };
    } catch (error) {
      return { answer: { status: { code: 2, message: (error as Error).message } } };
    }
  }
}

interface RawRequest {
  readonly service: string;
  readonly method: string;
  readonly payload: Buffer;
}

function partsOf(message: Buffer) {
  if (message.readUInt8(9) !== 0) throw new Error("flags of a unary call");
  return {
    stream: message.readUInt32BE(4),
    type: message.readUInt8(8),
    data: message.subarray(TTRPC_HEADER),
  };
}

function methodOf(definition: ServiceDefinition, name: string) {
  const method = definition[name];
  if (method === undefined) throw new TypeError(`no method ${name}`);
  return method;
}
