import { describeThrown, Failure } from "../../failure/failure.ts";
import { ChunkBuffer } from "../frame-stream.ts";

/** Bounds of one message. */
export interface JsonBounds {
  readonly bytes: number;
  /** Objects and arrays inside each other; what OVSDB sends has some ten. */
  readonly depth: number;
  /** Elements, members and what they consist of: each costs far more in memory than its bytes. */
  readonly values: number;
}

/** A thousand ports with all counters have some 3 MiB and 250,000 values. */
const OVSDB_BOUNDS: JsonBounds = { bytes: 6 * 1024 * 1024, depth: 32, values: 500_000 };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b;
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d;
const isBlank = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/**
 * Splits a stream of JSON objects and arrays that follow each other without delimiter or length, which is how
 * OVSDB frames its messages (RFC 7047 section 4). It reads bytes only: every byte of a multi-byte UTF-8
 * character is above 0x7f and so never looks like a bracket or a quote, wherever the chunks are cut.
 */
export class JsonStream {
  readonly #bounds: JsonBounds;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #held = new ChunkBuffer();
  #depth = 0;
  #values = 0;
  #inString = false;
  #escaped = false;

  /** @param bounds where others than {@link OVSDB_BOUNDS} */
  constructor(bounds: Partial<JsonBounds> = {}) {
    this.#bounds = { ...OVSDB_BOUNDS, ...bounds };
  }

  /**
   * The values that this chunk completes, in order. After it has thrown, the stream has no meaning any more.
   * @throws Failure dataplane-protocol for anything but JSON objects and arrays, and for one beyond the bounds
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
        yield this.#parse();
      }
    }
    if (this.#depth > 0) this.#keep(chunk.subarray(start));
  }

  /** Goes over one byte inside a value; true when the value ends with it. */
  #closes(byte: number): boolean {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) this.#inString = false;
      return false;
    }
    if (byte === QUOTE) this.#inString = true;
    else if (byte === COMMA) this.#values += 1;
    else if (isOpening(byte)) {
      this.#depth += 1;
      this.#values += 1;
      if (this.#depth > this.#bounds.depth)
        throw broken(`a message nested deeper than ${this.#bounds.depth}`);
    } else if (isClosing(byte)) this.#depth -= 1;
    if (this.#values > this.#bounds.values) {
      throw broken(`a message of more than ${this.#bounds.values} values`);
    }
    return this.#depth === 0;
  }

  #keep(part: Buffer): void {
    if (this.#held.size + part.length > this.#bounds.bytes) {
      throw broken(`a message of more than ${this.#bounds.bytes} bytes`);
    }
    this.#held.add(part);
  }

  #parse(): unknown {
    this.#values = 0;
    try {
      return JSON.parse(this.#decoder.decode(this.#held.take()));
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
