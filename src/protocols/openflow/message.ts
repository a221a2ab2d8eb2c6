import { Failure } from "../../failure/failure.ts";
import { ByteReader } from "../byte-reader.ts";
import { FrameStream } from "../frame-stream.ts";

/** OpenFlow versions that we speak, by their number on the wire: 1.3 and 1.4, which say what we need alike. */
export const VERSION_1_3 = 4;
export const VERSION_1_4 = 5;
export type Version = typeof VERSION_1_3 | typeof VERSION_1_4;

/** Types of messages (OpenFlow 1.4 section 7.1, `ofp_type`), the same in both versions. */
export const MESSAGE = {
  hello: 0,
  error: 1,
  echoRequest: 2,
  echoReply: 3,
  experimenter: 4,
  setConfig: 9,
  packetIn: 10,
  portStatus: 12,
  packetOut: 13,
  flowMod: 14,
  multipartRequest: 18,
  multipartReply: 19,
  barrierRequest: 20,
  barrierReply: 21,
  setAsync: 28,
  bundleControl: 33,
  bundleAdd: 34,
} as const;

/** One message without its length, which the framing knows. */
export interface Message {
  readonly version: number;
  readonly type: number;
  /** Ties replies and errors to their request. */
  readonly xid: number;
  readonly body: Buffer;
}

/** A message to the switch; it writes itself once its connection has a version and a number for it. */
export type Request = (version: Version, xid: number) => Buffer;

const HEADER_BYTES = 8;

const SIZES: Readonly<Record<string, number>> = { B: 1, H: 2, I: 4, Q: 8 };
/** Longer than every structure that we send. */
const PACKED_BYTES = 64;

/**
 * Big-endian integers, in the letters of Python's struct: B, H, I and Q are 1, 2, 4 and 8 bytes without a sign, "6x" is
 * 6 bytes of padding.
 */
export function pack(format: string, ...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.alloc(PACKED_BYTES);
  let at = 0;
  let index = 0;
  for (const part of format.split(" ")) {
    const size = SIZES[part];
    if (size === undefined) {
      at += Number.parseInt(part, 10);
    } else {
      const value = values[index] ?? 0;
      index += 1;
      at = typeof value === "bigint" ? bytes.writeBigUInt64BE(value, at) : bytes.writeUIntBE(value, at, size);
    }
  }
  return bytes.subarray(0, at);
}

/** A message as it goes over the wire. */
export function encodeMessage(version: number, type: number, xid: number, body: Buffer): Buffer {
  return Buffer.concat([pack("B B H I", version, type, HEADER_BYTES + body.length, xid), body]);
}

/** A request whose body is the same in both versions. */
export function request(type: number, body: Buffer = Buffer.alloc(0)): Request {
  return (version, xid) => encodeMessage(version, type, xid, body);
}

/** Cuts a stream of bytes into messages of at most 64 KiB; their bodies are views of what came. */
export function openflowMessages(): FrameStream<Message> {
  return new FrameStream({
    headerBytes: HEADER_BYTES,
    lengthOf: (header) => {
      const length = header.readUInt16BE(2);
      if (length < HEADER_BYTES) throw protocolFailure(`a message says that it has ${length} bytes`);
      return length;
    },
    read: (frame) => ({
      version: frame.readUInt8(0),
      type: frame.readUInt8(1),
      xid: frame.readUInt32BE(4),
      body: frame.subarray(HEADER_BYTES),
    }),
  });
}

const SPOKEN: readonly Version[] = [VERSION_1_4, VERSION_1_3];
/** `OFPHET_VERSIONBITMAP`, the one element of a hello (OpenFlow 1.4 section 7.5.1). */
const VERSION_BITMAP = 1;
/** By the number on the wire. */
const VERSION_NAMES = ["", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];

/** Our hello: the versions that we speak, as a bitmap. */
export function encodeHello(): Buffer {
  const bitmap = SPOKEN.reduce((bits, version) => bits | (1 << version), 0);
  return encodeMessage(VERSION_1_4, MESSAGE.hello, 0, pack("H H I", VERSION_BITMAP, 8, bitmap));
}

/**
 * The newest version that both sides speak, by the switch's hello: its bitmap, else all up to the one in its header.
 * @throws Failure dataplane-misconfigured where there is no such, dataplane-protocol
 */
export function negotiate(hello: Message): Version {
  if (hello.type !== MESSAGE.hello) throw protocolFailure(`it began with a message of type ${hello.type}`);
  const offered = offeredVersions(hello);
  const version = SPOKEN.find((spoken) => offered.includes(spoken));
  if (version !== undefined) return version;
  throw new Failure({
    code: "dataplane-misconfigured",
    what: `the bridge speaks OpenFlow ${offered.map((number) => VERSION_NAMES[number] || `0x${number.toString(16)}`).join(", ")} only; 1.3 or 1.4 is needed`,
    where: "Bridge.protocols",
    fix: "allow it: ovs-vsctl add bridge BRIDGE protocols OpenFlow14",
  });
}

function offeredVersions({ version, body }: Message): number[] {
  const reader = readerOf(body, "hello");
  while (reader.left >= 4) {
    const type = reader.u16();
    const length = reader.u16();
    if (length < 4) throw reader.malformed(`an element says that it has ${length} bytes`);
    const element = reader.take(length - 4);
    if (type === VERSION_BITMAP && element.length >= 4) return setBits(element.readUInt32BE());
    reader.take(Math.min((8 - (length % 8)) % 8, reader.left));
  }
  return Array.from({ length: version }, (_, index) => index + 1);
}

function setBits(bitmap: number): number[] {
  return Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => (bitmap & (1 << bit)) !== 0);
}

/** Kinds of multipart requests (`ofp_multipart_type`). */
export const MULTIPART = { flow: 1, portDescription: 13 } as const;
const MORE = 1;

/** Asks for a list that may come in several messages. */
export function multipartRequest(kind: number, body: Buffer): Request {
  return request(MESSAGE.multipartRequest, Buffer.concat([pack("H 6x", kind), body]));
}

/**
 * The bodies of all replies to a multipart request of this kind, joined: entries never span messages.
 * @throws Failure dataplane-protocol where one is of another kind, or the last is missing
 */
export function multipartBody(kind: number, replies: readonly Message[]): Buffer {
  let complete = false;
  const bodies = replies.map(({ type, body }) => {
    const reader = readerOf(body, "multipart reply");
    if (type !== MESSAGE.multipartReply || reader.u16() !== kind) {
      throw protocolFailure("it answered a multipart request with something else");
    }
    complete = (reader.u16() & MORE) === 0;
    reader.take(4);
    return reader.take(reader.left);
  });
  if (!complete) throw protocolFailure("it did not finish a multipart reply");
  return Buffer.concat(bodies);
}

/** Reads what the switch sent. @param what what the bytes are, for the failure: "port description" */
export function readerOf(bytes: Buffer, what: string): ByteReader {
  return new ByteReader(bytes, (why) => protocolFailure(`its ${what} is malformed: ${why}`));
}

/** The failure of a switch that does not keep to OpenFlow. */
export function protocolFailure(what: string): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `the switch broke the OpenFlow protocol: ${what}`,
    fix: "check that the bridge's socket is Open vSwitch's, and report its version",
  });
}

/** `ofp_error_type` (OpenFlow 1.4 section 7.5.4), as far as our requests can meet it. */
const ERROR_TYPES: Readonly<Record<number, string>> = {
  0: "hello failed",
  1: "bad request",
  2: "bad action",
  3: "bad instruction",
  4: "bad match",
  5: "flow modification failed",
  7: "port modification failed",
  11: "role request failed",
  13: "multipart request failed",
  17: "bundle failed",
};
const HELLO_FAILED = 0;
const FLOW_MOD_FAILED = 5;
const TABLE_FULL = 1;

/**
 * An error message of the switch as a failure: dataplane-misconfigured for what an admin can change, else dataplane-protocol.
 */
export function readError(body: Buffer): Failure {
  const reader = readerOf(body, "error");
  const type = reader.u16();
  const code = reader.u16();
  if (type === FLOW_MOD_FAILED && code === TABLE_FULL) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: "the bridge's flow table is full",
      where: "table 0",
      fix: "raise or remove flow_limit of the bridge's Flow_Table",
    });
  }
  const words =
    type === HELLO_FAILED ? `: ${JSON.stringify(reader.take(reader.left).toString("latin1"))}` : "";
  return new Failure({
    code: type === HELLO_FAILED ? "dataplane-misconfigured" : "dataplane-protocol",
    what: `the switch refused an OpenFlow request: ${ERROR_TYPES[type] ?? `error type ${type}`}, code ${code}${words}`,
    fix: "read the log of ovs-vswitchd",
  });
}
