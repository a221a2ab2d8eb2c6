import { broken } from "./broken.ts";

/** Reads the fields of one message from front to back; integers are big endian, nothing is padded. */
export class ByteReader {
  readonly #bytes: Buffer;
  readonly #message: string;
  #at = 0;

  /** @param message name of the message, for errors */
  constructor(bytes: Buffer, message: string) {
    this.#bytes = bytes;
    this.#message = message;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /**
   * The next `size` bytes.
   * @throws Failure dataplane-protocol where the message ends before them
   */
  take(size: number): Buffer {
    if (size > this.left) {
      throw broken(`a message of ${this.#bytes.length} bytes that ends too early`, this.#message);
    }
    this.#at += size;
    return this.#bytes.subarray(this.#at - size, this.#at);
  }
}
