import type { Failure } from "../failure/failure.ts";

/** Reads a message from its start to its end and never beyond. Integers are big endian, nothing is aligned. */
export class ByteReader {
  readonly #bytes: Buffer;
  /** The failure of this message, for what a reader finds out itself. */
  readonly malformed: (why: string) => Failure;
  #at = 0;

  /** @param malformed makes the failure of a message that is not what its protocol says */
  constructor(bytes: Buffer, malformed: (why: string) => Failure) {
    this.#bytes = bytes;
    this.malformed = malformed;
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
    const at = this.#skip(size);
    return this.#bytes.subarray(at, at + size);
  }

  u8(): number {
    return this.#bytes.readUInt8(this.#skip(1));
  }

  u16(): number {
    return this.#bytes.readUInt16BE(this.#skip(2));
  }

  u32(): number {
    return this.#bytes.readUInt32BE(this.#skip(4));
  }

  i32(): number {
    return this.#bytes.readInt32BE(this.#skip(4));
  }

  f64(): number {
    return this.#bytes.readDoubleBE(this.#skip(8));
  }

  u64(): bigint {
    return this.#bytes.readBigUInt64BE(this.#skip(8));
  }

  /** @returns where the bytes begin */
  #skip(size: number): number {
    if (size < 0 || size > this.left) {
      throw this.malformed(`${size} bytes wanted, ${this.left} of ${this.#bytes.length} left`);
    }
    this.#at += size;
    return this.#at - size;
  }
}
