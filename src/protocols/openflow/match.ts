import type { ByteReader } from "../byte-reader.ts";
import { pack, readerOf } from "./message.ts";

/** Where a field stands: OXM class and number, and its size in bytes (OpenFlow 1.4 section 7.2.3.7). */
const FIELDS = {
  inPort: [0x8000, 0, 4],
  ethSrc: [0x8000, 4, 6],
  ethType: [0x8000, 5, 2],
  /** 0 is untagged (`OFPVID_NONE`). */
  vlanVid: [0x8000, 6, 2],
  ipProto: [0x8000, 10, 1],
  ipv4Src: [0x8000, 11, 4],
  ipv4Dst: [0x8000, 12, 4],
  udpSrc: [0x8000, 15, 2],
  udpDst: [0x8000, 16, 2],
  arpOp: [0x8000, 21, 2],
  arpSpa: [0x8000, 22, 4],
  arpSha: [0x8000, 24, 6],
  arpTha: [0x8000, 25, 6],
  ipv6Src: [0x8000, 26, 16],
  icmpv6Type: [0x8000, 29, 1],
  icmpv6Code: [0x8000, 30, 1],
  ndTarget: [0x8000, 31, 16],
  ndSll: [0x8000, 32, 6],
  ndTll: [0x8000, 33, 6],
  /** The last of Open vSwitch's own registers, which begin as 0 with each packet (ovs-fields(7)). */
  reg15: [0x0001, 15, 4],
} as const;

export type FieldName = keyof typeof FIELDS;

/** `OFPMT_OXM`, the one type of match. */
const OXM = 1;

/** One field that a flow matches: its header, then its value and, where it has one, its mask. */
export interface MatchField {
  readonly header: number;
  readonly payload: Buffer;
}

/** A field's header without a mask; registers are loaded by it too. */
export function fieldHeader(name: FieldName): number {
  const [oxmClass, number, size] = FIELDS[name];
  return ((oxmClass << 16) | (number << 9) | size) >>> 0;
}

/** `name` has exactly `value`, or the bits of it that `mask` has; a number is written at the field's size. */
export function field(name: FieldName, value: number | Uint8Array, mask?: number): MatchField {
  const size = FIELDS[name][2];
  const payload = bytesOf(value, size);
  if (mask === undefined) return { header: fieldHeader(name), payload };
  return {
    header: (fieldHeader(name) | 0x100) + size,
    payload: Buffer.concat([payload, bytesOf(mask, size)]),
  };
}

function bytesOf(value: number | Uint8Array, size: number): Buffer {
  if (typeof value !== "number") return Buffer.from(value);
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return bytes;
}

/** The value of an unmasked field in a match, or undefined. */
export function exactValue(match: readonly MatchField[], name: FieldName): Buffer | undefined {
  return match.find(({ header }) => header === fieldHeader(name))?.payload;
}

/** `struct ofp_match` with its padding. */
export function encodeMatch(match: readonly MatchField[]): Buffer {
  const fields = Buffer.concat(match.flatMap(({ header, payload }) => [pack("I", header), payload]));
  const length = 4 + fields.length;
  return Buffer.concat([pack("H H", OXM, length), fields, Buffer.alloc(padding(length))]);
}

/**
 * Reads a match from `reader`, fields that we do not know included.
 * @throws Failure dataplane-protocol
 */
export function readMatch(reader: ByteReader): MatchField[] {
  const type = reader.u16();
  const length = reader.u16();
  if (type !== OXM || length < 4) throw reader.malformed(`a match of type ${type} with ${length} bytes`);
  const fields = readerOf(reader.take(length - 4), "match");
  reader.take(padding(length));
  const match: MatchField[] = [];
  while (fields.left > 0) {
    const header = fields.u32();
    match.push({ header, payload: fields.take(header & 0xff) });
  }
  return match;
}

const padding = (length: number): number => (8 - (length % 8)) % 8;
