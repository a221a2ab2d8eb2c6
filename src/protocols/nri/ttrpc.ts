// ttrpc, gRPC's small relative on sockets without TLS (containerd/ttrpc, PROTOCOL.md): unary calls only, as NRI has them.
import { Failure } from "../../failure/failure.ts";
import { FrameStream } from "../frame-stream.ts";

const HEADER_BYTES = 10;
const DATA_MAX_BYTES = 4 * 1024 * 1024;
/** Longest message, header included. */
export const TTRPC_MAX_BYTES = HEADER_BYTES + DATA_MAX_BYTES;

/** Types of messages; others, and flags, belong to streams. */
export const REQUEST = 1;
export const RESPONSE = 2;

/** The codes of gRPC that are used here. */
export const STATUS = {
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  unimplemented: 12,
} as const;

/** A message whose content is not decoded yet. */
export interface TtrpcMessage {
  readonly type: number;
  /** Which call: odd, and rising from 1 with each of a client's. */
  readonly stream: number;
  readonly data: Buffer;
}

/** The Failure for bytes that ttrpc or NRI does not allow. */
export function broken(what: string): Failure {
  return new Failure({
    code: "runtime-protocol",
    what: `the container runtime sent ${what}`,
    fix: "check that the configured socket is the NRI socket of containerd or CRI-O",
  });
}

/** Cuts the bytes of one connection into messages. */
export function ttrpcMessages(): FrameStream<TtrpcMessage> {
  return new FrameStream({
    headerBytes: HEADER_BYTES,
    lengthOf: (header) => {
      const length = header.readUInt32BE(0);
      if (length > DATA_MAX_BYTES) throw broken(`a message of ${length} bytes`);
      return HEADER_BYTES + length;
    },
    read: (message) => ({
      type: message.readUInt8(8),
      stream: message.readUInt32BE(4),
      data: message.subarray(HEADER_BYTES),
    }),
  });
}

/** A message with its header. */
export function encodeMessage({ type, stream, data }: TtrpcMessage): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(data.length, 0);
  header.writeUInt32BE(stream, 4);
  header.writeUInt8(type, 8);
  return Buffer.concat([header, data]);
}
