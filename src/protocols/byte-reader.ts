import type { Failure } from "../failure/failure.ts";

/** Reads a message from its start to its end and never beyond. Integers are big endian, nothing is aligned. */
export class ByteReader {
  readonly #bytes: Buffer;
  readonly #malformed: (why: string) => Failure;
  #at = 0;

  /** @param malformed makes the failure of a message that is not what its protocol says */
  constructor(bytes: Buffer, malformed: (why: string) => Failure) {
    this.#bytes = bytes;
    this.#malformed = malformed;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /**
   * The next `size` bytes, as a view of the message.
   * @throws Failure where fewer are left
   */
  take(size: number): Buffer {
    if (size < 0 || size > this.left) {
      throw this.malformed(`${size} bytes wanted, ${this.left} of ${this.#bytes.length} left`);
    }
    this.#at += size;
    return this.#bytes.subarray(this.#at - size, this.#at);
  }

  /** @throws Failure where fewer bytes are left */
  skip(size: number): void {
    this.take(size);
  }

  u8(): number {
    return this.take(1).readUInt8();
  }

  u16(): number {
    return this.take(2).readUInt16BE();
  }

  u32(): number {
    return this.take(4).readUInt32BE();
  }

  u64(): bigint {
    return this.take(8).readBigUInt64BE();
  }

  /** The failure of this message, for what a reader finds out itself. */
  malformed(why: string): Failure {
    return this.#malformed(why);
  }
}
