import { Failure } from "../../failure/failure.ts";
import type { ByteReader } from "../byte-reader.ts";

/** How VPP lays out one field of a message. */
export interface Field<Value> {
  /** What it is made of on the wire, in the words of VPP's .api files; arrays in brackets. */
  readonly wire: readonly string[];
  /** Fewest bytes that it has. */
  readonly size: number;
  /** @throws Failure invalid-request for a value that the field cannot hold */
  write(value: Value): Buffer;
  /** @throws Failure dataplane-protocol */
  read(from: ByteReader): Value;
}

/** Fields in their order on the wire, by VPP's own names. */
export type Layout = Readonly<Record<string, Field<unknown>>>;

/** The values that a layout holds. */
export type ValuesOf<Of extends Layout> = {
  readonly [Name in keyof Of]: Of[Name] extends Field<infer Value> ? Value : never;
};

export const u8 = number("u8", 1, "UInt8");
export const u16 = number("u16", 2, "UInt16BE");
export const u32 = number("u32", 4, "UInt32BE");
export const i32 = number("i32", 4, "Int32BE");
export const f64 = number("f64", 8, "DoubleBE");

export const u64: Field<bigint> = {
  wire: ["u64"],
  size: 8,
  write(value) {
    if (BigInt.asUintN(64, value) !== value) throw outOfRange("u64", value);
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(value);
    return bytes;
  },
  read: (from) => from.u64(),
};

export const bool: Field<boolean> = {
  wire: ["bool"],
  size: 1,
  write: (value) => Buffer.of(value ? 1 : 0),
  read: (from) => from.u8() !== 0,
};

/** Text in a field of `size` bytes, filled up with NULs, of which VPP needs at least one. */
export function text(size: number): Field<string> {
  return {
    wire: [`string[${size}]`],
    size,
    write(value) {
      const bytes = Buffer.from(value);
      if (bytes.length >= size || bytes.includes(0)) throw outOfRange(`string[${size}]`, value);
      return Buffer.concat([bytes, Buffer.alloc(size - bytes.length)]);
    },
    read(from) {
      const bytes = from.take(size);
      const end = bytes.indexOf(0);
      return bytes.toString("utf8", 0, end < 0 ? size : end);
    },
  };
}

/** Text after its own length; always a message's last field. */
export const longText: Field<string> = {
  wire: ["string[]"],
  size: 4,
  write(value) {
    const bytes = Buffer.from(value);
    return Buffer.concat([u32.write(bytes.length), bytes]);
  },
  read: (from) => from.take(u32.read(from)).toString("utf8"),
};

/** Exactly `size` bytes, such as a MAC address. */
export function octets(size: number): Field<Buffer> {
  return {
    wire: [`u8[${size}]`],
    size,
    write(value) {
      if (value.length !== size) throw outOfRange(`u8[${size}]`, value.toString("hex"));
      return value;
    },
    read: (from) => Buffer.from(from.take(size)),
  };
}

/** `count` values of the same kind. */
export function array<Value>(of: Field<Value>, count: number): Field<readonly Value[]> {
  return {
    wire: [`${of.wire.join(" ")}[${count}]`],
    size: of.size * count,
    write(values) {
      if (values.length !== count) throw outOfRange(`array of ${count}`, values.length);
      return Buffer.concat(values.map((value) => of.write(value)));
    },
    read: (from) => Array.from({ length: count }, () => of.read(from)),
  };
}

/** Fields in a row, as one. */
export function group<const Of extends Layout>(layout: Of): Field<ValuesOf<Of>> {
  const fields = Object.values(layout);
  return {
    wire: fields.flatMap(({ wire }) => wire),
    size: fields.reduce((sum, { size }) => sum + size, 0),
    write: (values) => writeFields(layout, values),
    read: (from) => readFields(layout, from),
  };
}

/** As many groups as a count before them says; always a message's last field. */
export function counted<const Of extends Layout>(
  count: Field<number>,
  layout: Of,
): Field<readonly ValuesOf<Of>[]> {
  const one = group(layout);
  return {
    wire: [...count.wire, `(${one.wire.join(" ")})[]`],
    size: count.size,
    write: (values) =>
      Buffer.concat([count.write(values.length), ...values.map((value) => one.write(value))]),
    read(from) {
      const length = count.read(from);
      if (length * one.size > from.left) throw from.malformed(`a list of ${length} that is cut off`);
      return Array.from({ length }, () => one.read(from));
    },
  };
}

/** The bytes of all fields of a layout. */
export function writeFields<Of extends Layout>(layout: Of, values: ValuesOf<Of>): Buffer {
  return Buffer.concat(Object.entries(layout).map(([name, field]) => field.write(values[name])));
}

/** The values of all fields of a layout. */
export function readFields<Of extends Layout>(layout: Of, from: ByteReader): ValuesOf<Of> {
  const values: Record<string, unknown> = {};
  for (const name in layout) values[name] = layout[name]?.read(from);
  return values as ValuesOf<Of>;
}

function number(
  wire: "u8" | "u16" | "u32" | "i32" | "f64",
  size: number,
  kind: "UInt8" | "UInt16BE" | "UInt32BE" | "Int32BE" | "DoubleBE",
): Field<number> {
  return {
    wire: [wire],
    size,
    write(value) {
      const bytes = Buffer.alloc(size);
      try {
        bytes[`write${kind}`](value);
      } catch {
        throw outOfRange(wire, value);
      }
      // Node writes a fraction without what follows the point.
      if (bytes[`read${kind}`]() !== value) throw outOfRange(wire, value);
      return bytes;
    },
    read: (from) => from[wire](),
  };
}

function outOfRange(wire: string, value: unknown): Failure {
  return new Failure({
    code: "invalid-request",
    what: `${JSON.stringify(String(value))} does not fit VPP's ${wire}`,
  });
}
