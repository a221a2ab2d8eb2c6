import { Failure } from "../../failure/failure.ts";
import { ByteReader } from "../byte-reader.ts";
import { FrameStream } from "../frame-stream.ts";
import type { Shape } from "./call.ts";
import {
  counted,
  group,
  i32,
  type Layout,
  readFields,
  text,
  u16,
  u32,
  type ValuesOf,
  writeFields,
} from "./fields.ts";

/** Before every message: 8 bytes without a meaning, its length, 4 bytes without a meaning. */
const FRAME_HEADER_BYTES = 16;
const LENGTH_AT = 8;
/** Every message begins with its number. */
const ID_BYTES = 2;
/** The two messages whose numbers are fixed, because they come before the table of numbers. */
const HELLO_ID = 15;
const WELCOME_ID = 16;

const hello = { id: u16, context: u32, name: text(64) };
const welcome = {
  id: u16,
  client_index: u32,
  context: u32,
  response: i32,
  index: u32,
  message_table: counted(u16, { index: u16, name: text(64) }),
};
const requestHeader = { id: u16, client_index: u32, context: u32 };
const answerHeader = group({ id: u16, context: u32 });

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
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUInt32BE(message.length, LENGTH_AT);
  return Buffer.concat([header, message]);
}

/** Cuts what comes out of VPP's socket into messages. @param maxBytes of one message */
export function vppFrames(maxBytes: number): FrameStream<Buffer> {
  return new FrameStream({
    headerBytes: FRAME_HEADER_BYTES,
    lengthOf: (header) => {
      const length = header.readUInt32BE(LENGTH_AT);
      if (length < ID_BYTES || length > maxBytes) throw broken(`a frame of ${length} bytes`);
      return FRAME_HEADER_BYTES + length;
    },
    read: (framed) => framed.subarray(FRAME_HEADER_BYTES),
  });
}

/** What begins every connection, in its frame: `sockclnt_create`. */
export function encodeHello(name: string): Buffer {
  return frame(writeFields(hello, { id: HELLO_ID, context: 0, name }));
}

/**
 * Reads `sockclnt_create_reply`.
 * @throws Failure dataplane-protocol where it is something else, or a refusal
 */
export function readWelcome(message: Buffer): ValuesOf<typeof welcome> {
  const id = message.readUInt16BE();
  if (id !== WELCOME_ID) throw broken(`message ${id} where sockclnt_create_reply was to come`);
  const values = readFields(welcome, readerOf(message, "sockclnt_create_reply"));
  if (values.response < 0) throw broken(`refusal ${values.response} of our connection`);
  return values;
}

/**
 * A request in its frame.
 * @throws Failure invalid-request for a value that does not fit its field
 */
export function encodeRequest<Of extends Layout>(
  { layout }: Shape<Of>,
  header: ValuesOf<typeof requestHeader>,
  values: ValuesOf<Of>,
): Buffer {
  return frame(Buffer.concat([writeFields(requestHeader, header), writeFields(layout, values)]));
}

/**
 * The number and the context that any message but an event begins with.
 * @throws Failure dataplane-protocol
 */
export function decodeHeader(message: Buffer): ValuesOf<{ id: typeof u16; context: typeof u32 }> {
  return answerHeader.read(readerOf(message, "a message's header"));
}

/**
 * An answer's, a detail's or an event's fields; an event has the client index where others have the context. Bytes
 * after them are ignored, as VPP itself does.
 * @throws Failure dataplane-protocol
 */
export function decodeAnswer<Of extends Layout>({ name, layout }: Shape<Of>, message: Buffer): ValuesOf<Of> {
  const from = readerOf(message, name);
  answerHeader.read(from);
  return readFields(layout, from);
}
