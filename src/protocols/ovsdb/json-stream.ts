import { describeThrown, Failure } from "../../failure/failure.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b;
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d;
const isBlank = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/**
 * Splits a stream of JSON objects and arrays that follow each other without delimiter or length, which is how
 * OVSDB frames its messages (RFC 7047 section 4). It looks at bytes only: every byte of a multi-byte UTF-8
 * character is above 0x7f and so never looks like a bracket or a quote, wherever the chunks are cut.
 */
export class JsonStream {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #chunks: Buffer[] = [];
  #size = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** @param maxBytes longest value that is accepted, in bytes */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The values that this chunk completes, in order. After it has thrown, the stream has no meaning any more.
   * @throws Failure dataplane-protocol for anything but JSON objects and arrays, and for one that is too long
   */
  *push(chunk: Buffer): Generator<unknown, void, undefined> {
    let start = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0;
      if (this.#depth === 0) {
        if (isBlank(byte)) continue;
        if (!isOpening(byte)) throw broken(`byte 0x${byte.toString(16)} where an object was to begin`);
        start = at;
        this.#depth = 1;
      } else if (this.#closes(byte)) {
        this.#keep(chunk.subarray(start, at + 1));
        yield this.#take();
      }
    }
    if (this.#depth > 0) this.#keep(chunk.subarray(start));
  }

  /** Takes one byte inside a value; true when the value ends with it. */
  #closes(byte: number): boolean {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) this.#inString = false;
      return false;
    }
    if (byte === QUOTE) this.#inString = true;
    else if (isOpening(byte)) this.#depth += 1;
    else if (isClosing(byte)) this.#depth -= 1;
    return this.#depth === 0;
  }

  #keep(part: Buffer): void {
    this.#size += part.length;
    if (this.#size > this.#maxBytes) throw broken(`a message of more than ${this.#maxBytes} bytes`);
    this.#chunks.push(part);
  }

  #take(): unknown {
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#size = 0;
    try {
      return JSON.parse(this.#decoder.decode(bytes));
    } catch (cause) {
      throw broken(`text that is not JSON (${describeThrown(cause)})`, cause);
    }
  }
}

function broken(what: string, cause?: unknown): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `the OVSDB server sent ${what}`,
    fix: "check that the configured socket is the one of ovsdb-server",
    cause,
  });
}
