import { Failure } from "../../failure/failure.ts";
import { ByteReader } from "../byte-reader.ts";
import { FrameStream } from "../frame-stream.ts";

/** Before every message: 8 bytes without a meaning, its length, 4 bytes without a meaning. */
const HEADER_BYTES = 16;
const LENGTH_AT = 8;
/** Every message begins with its number. */
const ID_BYTES = 2;

/** The Failure for bytes that VPP's binary API does not allow. */
export function broken(what: string, where?: string): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `VPP sent ${what}`,
    fix: "check that the configured socket is VPP's API socket (socksvr in its startup.conf)",
    ...(where === undefined ? {} : { where }),
  });
}

/** Reads a message of VPP. @param name of the message, for failures */
export function readerOf(message: Buffer, name: string): ByteReader {
  return new ByteReader(message, (why) => broken(`a message that is malformed: ${why}`, name));
}

/** A message with its frame header. */
export function frame(message: Buffer): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES + message.length);
  bytes.writeUInt32BE(message.length, LENGTH_AT);
  message.copy(bytes, HEADER_BYTES);
  return bytes;
}

/** Cuts what comes out of VPP's socket into messages, with their frame headers. @param maxBytes of one message */
export function vppFrames(maxBytes: number): FrameStream {
  return new FrameStream({
    headerBytes: HEADER_BYTES,
    lengthOf: (header) => {
      const length = header.readUInt32BE(LENGTH_AT);
      if (length < ID_BYTES || length > maxBytes) throw broken(`a frame of ${length} bytes`);
      return HEADER_BYTES + length;
    },
  });
}

/** The message in a frame. */
export function unframe(bytes: Buffer): Buffer {
  return bytes.subarray(HEADER_BYTES);
}
