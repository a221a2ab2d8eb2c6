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
import { broken, readerOf } from "./frame.ts";

/** The two messages whose numbers are fixed, because they come before the table of numbers. */
const HELLO_ID = 15;
const WELCOME_ID = 16;

const hello = group({ id: u16, context: u32, name: text(64) });
const requestHeader = { id: u16, client_index: u32, context: u32 };
const answerHeader = group({ id: u16, context: u32 });
const welcome = {
  client_index: u32,
  context: u32,
  response: i32,
  index: u32,
  message_table: counted(u16, { index: u16, name: text(64) }),
};

/** What begins every connection: `sockclnt_create`. */
export function encodeHello(name: string, context: number): Buffer {
  return hello.write({ id: HELLO_ID, context, name });
}

/**
 * Reads `sockclnt_create_reply`.
 * @throws Failure dataplane-protocol where it is something else
 */
export function decodeWelcome(message: Buffer): ValuesOf<typeof welcome> {
  const from = readerOf(message, "sockclnt_create_reply");
  const id = u16.read(from);
  if (id !== WELCOME_ID) throw broken(`message ${id} where sockclnt_create_reply was to come`);
  return readFields(welcome, from);
}

/**
 * A request's bytes.
 * @throws Failure invalid-request for a value that does not fit its field
 */
export function encodeRequest<Of extends Layout>(
  shape: Shape<Of>,
  header: ValuesOf<typeof requestHeader>,
  values: ValuesOf<Of>,
): Buffer {
  return Buffer.concat([writeFields(requestHeader, header), writeFields(shape.layout, values)]);
}

/**
 * The number and the context that any message but an event begins with.
 * @throws Failure dataplane-protocol
 */
export function decodeHeader(message: Buffer): { readonly id: number; readonly context: number } {
  return answerHeader.read(readerOf(message, "a message's header"));
}

/**
 * An answer's, a detail's or an event's fields; an event has the client index where others have the context. Bytes
 * after them are ignored, as VPP itself does.
 * @throws Failure dataplane-protocol
 */
export function decodeAnswer<Of extends Layout>(shape: Shape<Of>, message: Buffer): ValuesOf<Of> {
  const from = readerOf(message, shape.name);
  answerHeader.read(from);
  return readFields(shape.layout, from);
}
