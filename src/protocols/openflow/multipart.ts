import { ByteReader, protocolFailure } from "./byte-reader.ts";
import { MESSAGE, type Message, type Request, request } from "./message.ts";

/** Kinds of multipart requests (`ofp_multipart_type`). */
export const MULTIPART = { flow: 1, portDescription: 13 } as const;
const MORE = 1;

/** Asks for a list that may come in several messages. */
export function multipartRequest(kind: number, body: Buffer): Request {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(kind, 0);
  return request(MESSAGE.multipartRequest, Buffer.concat([head, body]));
}

/**
 * The bodies of all replies to a multipart request of this kind, joined: entries never span messages.
 * @throws Failure dataplane-protocol where one is of another kind, or the last is missing
 */
export function multipartBody(kind: number, replies: readonly Message[]): Buffer {
  let complete = false;
  const bodies = replies.map(({ type, body }) => {
    const reader = new ByteReader(body, "multipart reply");
    if (type !== MESSAGE.multipartReply || reader.u16() !== kind) {
      throw protocolFailure("it answered a multipart request with something else");
    }
    complete = (reader.u16() & MORE) === 0;
    reader.skip(4);
    return reader.take(reader.left);
  });
  if (!complete) throw protocolFailure("it did not finish a multipart reply");
  return Buffer.concat(bodies);
}
