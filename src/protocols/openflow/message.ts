import { ByteReader, protocolFailure } from "./byte-reader.ts";

/** OpenFlow versions that we speak, by their number on the wire: 1.3 and 1.4, which say what we need alike. */
export const VERSION_1_3 = 4;
export const VERSION_1_4 = 5;
export type Version = typeof VERSION_1_3 | typeof VERSION_1_4;

/** Types of messages (OpenFlow 1.4 section 7.1, `ofp_type`), the same in both versions. */
export const MESSAGE = {
  hello: 0,
  error: 1,
  echoRequest: 2,
  echoReply: 3,
  experimenter: 4,
  setConfig: 9,
  portStatus: 12,
  packetOut: 13,
  flowMod: 14,
  multipartRequest: 18,
  multipartReply: 19,
  barrierRequest: 20,
  barrierReply: 21,
  setAsync: 28,
  bundleControl: 33,
  bundleAdd: 34,
} as const;

/** One message without its length, which the framing knows. */
export interface Message {
  readonly version: number;
  readonly type: number;
  /** Ties replies and errors to their request. */
  readonly xid: number;
  readonly body: Buffer;
}

/** A message to the switch; it writes itself once its connection has a version and a number for it. */
export type Request = (version: Version, xid: number) => Buffer;

const HEADER_BYTES = 8;

/** A message as it goes over the wire. */
export function encodeMessage(version: number, type: number, xid: number, body: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt8(version, 0);
  header.writeUInt8(type, 1);
  header.writeUInt16BE(HEADER_BYTES + body.length, 2);
  header.writeUInt32BE(xid, 4);
  return Buffer.concat([header, body]);
}

/** A request whose body is the same in both versions. */
export function request(type: number, body: Buffer = Buffer.alloc(0)): Request {
  return (version, xid) => encodeMessage(version, type, xid, body);
}

/** Cuts a stream of bytes into messages, however the chunks fall; it holds back less than one message (64 KiB). */
export class MessageStream {
  #held: Buffer = Buffer.alloc(0);

  /**
   * The messages that this chunk completes, in order. After it has thrown, the stream has no meaning any more.
   * @throws Failure dataplane-protocol for a length that cannot be
   */
  *push(chunk: Buffer): Generator<Message, void, undefined> {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    while (this.#held.length >= HEADER_BYTES) {
      const length = this.#held.readUInt16BE(2);
      if (length < HEADER_BYTES) throw protocolFailure(`a message says that it has ${length} bytes`);
      if (this.#held.length < length) return;
      const reader = new ByteReader(this.#held.subarray(0, length), "message");
      this.#held = this.#held.subarray(length);
      const version = reader.u8();
      const type = reader.u8();
      reader.skip(2);
      yield { version, type, xid: reader.u32(), body: reader.take(reader.left) };
    }
  }
}
