import { broken } from "./broken.ts";

/** Before every message: 8 bytes that nobody reads, its length, 4 bytes that nobody reads. */
const HEADER_BYTES = 16;
const LENGTH_AT = 8;
/** Every message begins with its number. */
const ID_BYTES = 2;

/** A message with its frame header. */
export function frame(message: Buffer): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES + message.length);
  bytes.writeUInt32BE(message.length, LENGTH_AT);
  message.copy(bytes, HEADER_BYTES);
  return bytes;
}

/** Cuts what comes out of VPP's socket, in whatever pieces it comes, into messages. */
export class FrameStream {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #size = 0;
  /** Bytes without which nothing can be told. */
  #needed = HEADER_BYTES;

  /** @param maxBytes longest message that is accepted, without its header */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The messages that this chunk completes, in order. After it has thrown, the stream has no meaning any more.
   * @throws Failure dataplane-protocol for a length that no message has
   */
  *push(chunk: Buffer): Generator<Buffer, void, undefined> {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    while (this.#size >= this.#needed) {
      const [only, ...more] = this.#chunks;
      const bytes = only === undefined || more.length > 0 ? Buffer.concat(this.#chunks) : only;
      const length = bytes.readUInt32BE(LENGTH_AT);
      if (length < ID_BYTES || length > this.#maxBytes) throw broken(`a frame of ${length} bytes`);
      const end = HEADER_BYTES + length;
      const whole = bytes.length >= end;
      this.#keep(whole ? bytes.subarray(end) : bytes);
      this.#needed = whole ? HEADER_BYTES : end;
      if (whole) yield bytes.subarray(HEADER_BYTES, end);
    }
  }

  #keep(rest: Buffer): void {
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#size = rest.length;
  }
}
