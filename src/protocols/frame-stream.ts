/** Collects the chunks of one message in one piece of memory, so that a peer that sends single bytes costs no more. */
export class ChunkBuffer {
  #bytes: Buffer = Buffer.alloc(0);
  #size = 0;

  /** Bytes collected so far. */
  get size(): number {
    return this.#size;
  }

  add(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    if (size > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#size);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#size);
    this.#size = size;
  }

  /** The bytes so far, as a view that is good until the next call. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }

  /** Gives all bytes away and begins again without any. */
  take(): Buffer {
    const bytes = this.view();
    this.#bytes = Buffer.alloc(0);
    this.#size = 0;
    return bytes;
  }
}

/** How a protocol cuts and reads messages. */
export interface FrameFormat<Message> {
  /** Bytes of the header that every message begins with. */
  readonly headerBytes: number;
  /**
   * Length of the whole message, header included.
   * @throws Failure dataplane-protocol for a length that no message has, or that is above the protocol's bound
   */
  lengthOf(header: Buffer): number;
  /** The message in so many bytes. */
  read(frame: Buffer): Message;
}

/** Cuts a stream of bytes, in whatever chunks it comes, into messages that begin with their length. */
export class FrameStream<Message> {
  readonly #format: FrameFormat<Message>;
  readonly #held = new ChunkBuffer();
  /** Bytes without which nothing can be done. */
  #needed: number;

  constructor(format: FrameFormat<Message>) {
    this.#format = format;
    this.#needed = format.headerBytes;
  }

  /**
   * The messages that this chunk completes, in order, made of views of what came. After it has
   * thrown, the stream has no meaning any more.
   * @throws Failure dataplane-protocol
   */
  *push(chunk: Buffer): Generator<Message, void, undefined> {
    let rest = chunk;
    if (this.#held.size > 0) {
      this.#held.add(chunk);
      if (this.#held.size < this.#needed) return;
      rest = this.#held.take();
    }
    while (rest.length >= this.#format.headerBytes) {
      const length = this.#format.lengthOf(rest);
      this.#needed = length;
      if (rest.length < length) break;
      yield this.#format.read(rest.subarray(0, length));
      rest = rest.subarray(length);
      this.#needed = this.#format.headerBytes;
    }
    if (rest.length > 0) this.#held.add(rest);
  }
}
