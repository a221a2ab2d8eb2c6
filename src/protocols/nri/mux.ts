// NRI's multiplexer: two connections over one socket, as frames of an id, a length and so many bytes.
import { FrameStream } from "../frame-stream.ts";
import { broken, TTRPC_MAX_BYTES } from "./ttrpc.ts";

const HEADER_BYTES = 8;
/** What the runtime's reader buffers: a frame that begins a message and has more bytes makes it drop the connection. */
const FIRST_FRAME_BYTES = 4096;

/** The plugin's service, which the runtime calls. */
export const PLUGIN_CONNECTION = 1;
/** The runtime's service, which the plugin calls. */
export const RUNTIME_CONNECTION = 2;

/** Bytes of one of the two connections; any other id is to be ignored. */
export interface Frame {
  readonly connection: number;
  readonly payload: Buffer;
}

/** Cuts what comes out of the socket into frames. */
export function muxFrames(): FrameStream<Frame> {
  return new FrameStream({
    headerBytes: HEADER_BYTES,
    lengthOf: (header) => {
      const length = header.readUInt32BE(4);
      if (length > TTRPC_MAX_BYTES) throw broken(`a frame of ${length} bytes`);
      return HEADER_BYTES + length;
    },
    read: (frame) => ({ connection: frame.readUInt32BE(0), payload: frame.subarray(HEADER_BYTES) }),
  });
}

/**
 * One ttrpc message in frames, as the runtime's reader needs them: never a part of another message in the same frame, and
 * all behind the first 4096 bytes in a second one.
 */
export function framesOf(connection: number, message: Buffer): Buffer {
  const parts = [message.subarray(0, FIRST_FRAME_BYTES), message.subarray(FIRST_FRAME_BYTES)];
  return Buffer.concat(
    parts.flatMap((part) => (part.length === 0 ? [] : [header(connection, part.length), part])),
  );
}

function header(connection: number, length: number): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.writeUInt32BE(connection, 0);
  bytes.writeUInt32BE(length, 4);
  return bytes;
}
