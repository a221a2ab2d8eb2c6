import { Failure } from "../../failure/failure.ts";

/** Reads a switch's message from its start to its end and never beyond. */
export class ByteReader {
  readonly #bytes: Buffer;
  readonly #what: string;
  #at = 0;

  /** @param what what the bytes are, for the failure: "port description" */
  constructor(bytes: Buffer, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /**
   * The next `length` bytes.
   * @throws Failure dataplane-protocol where fewer are left
   */
  take(length: number): Buffer {
    if (length < 0 || length > this.left) throw this.broken(`${length} bytes wanted, ${this.left} left`);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  skip(length: number): void {
    this.take(length);
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

  /** The failure of a message that is not what its protocol says. */
  broken(why: string): Failure {
    return protocolFailure(`its ${this.#what} is malformed: ${why}`);
  }
}

/** The failure of a switch that does not keep to OpenFlow. */
export function protocolFailure(what: string): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `the switch broke the OpenFlow protocol: ${what}`,
    fix: "check that the bridge's socket is Open vSwitch's, and report its version",
  });
}
