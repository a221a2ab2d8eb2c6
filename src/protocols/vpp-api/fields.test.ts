import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import {
  array,
  bool,
  counted,
  type Field,
  group,
  i32,
  longText,
  octets,
  text,
  u8,
  u16,
  u32,
  u64,
} from "./fields.ts";
import { readerOf } from "./frame.ts";

const read = <Value>(field: Field<Value>, bytes: Uint8Array) =>
  field.read(readerOf(Buffer.from(bytes), "a_message"));

/** Text without NULs of at most 15 bytes. */
const shortText = fc
  .string({ unit: "binary", maxLength: 15 })
  .filter((value) => value.isWellFormed() && !value.includes("\0") && Buffer.byteLength(value) <= 15);
const list = counted(u32, { index: u32, group: u8 });
const all = group({
  u8,
  u16,
  u32,
  i32,
  u64,
  bool,
  text: text(16),
  octets: octets(6),
  array: array(u32, 4),
  group: group({ a: u8, b: u16 }),
  list,
});
const values = fc.record({
  u8: fc.integer({ min: 0, max: 0xff }),
  u16: fc.integer({ min: 0, max: 0xffff }),
  u32: fc.integer({ min: 0, max: 0xffff_ffff }),
  i32: fc.integer(),
  u64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  bool: fc.boolean(),
  text: shortText,
  octets: fc.uint8Array({ minLength: 6, maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
  array: fc.array(fc.integer({ min: 0, max: 0xffff_ffff }), { minLength: 4, maxLength: 4 }),
  group: fc.record({ a: fc.integer({ min: 0, max: 255 }), b: fc.integer({ min: 0, max: 0xffff }) }),
  list: fc.array(
    fc.record({
      index: fc.integer({ min: 0, max: 0xffff_ffff }),
      group: fc.integer({ min: 0, max: 255 }),
    }),
    { maxLength: 5 },
  ),
});

describe("fields of VPP's messages", () => {
  it("come back as they were written", () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(read(all, all.write(value))).toEqual(value);
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (value) => {
        fc.pre(value.isWellFormed());
        expect(read(longText, longText.write(value))).toBe(value);
      }),
    );
  });

  it("are big endian, without padding, and filled up with NULs", () => {
    const field = group({ a: u8, b: u32, c: i32, d: bool, e: text(4), f: u64, g: longText });
    const bytes = field.write({ a: 1, b: 2, c: -2, d: true, e: "xy", f: 3n, g: "z" });
    expect(bytes.toString("hex")).toBe("0100000002fffffffe017879000000000000000000030000" + "00017a");
  });

  it("never throw anything but a Failure, and never read past the end, whatever VPP sends", () => {
    for (const field of [all, longText, list] as Field<unknown>[]) {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
          try {
            read(field, bytes);
          } catch (thrown) {
            expect(thrown).toBeInstanceOf(Failure);
            expect((thrown as Failure).code).toBe("dataplane-protocol");
          }
        }),
      );
    }
  });

  it("do not allocate a list that the message cannot hold", () => {
    expect(() => read(list, Buffer.from("ffffffff0000", "hex"))).toThrow("a list of 4294967295");
    expect(() => read(longText, Buffer.from("ffffffff41", "hex"))).toThrow("4294967295 bytes wanted");
  });

  it("take text that fills its field to the last byte, as some of VPP's own does", () => {
    expect(read(text(4), Buffer.from("abcd"))).toBe("abcd");
    expect(read(text(4), Buffer.from("a\0cd"))).toBe("a");
  });

  it.each([
    [u8, 256],
    [u8, -1],
    [u16, 1.5],
    [u32, 0x1_0000_0000],
    [i32, 0x8000_0000],
    [u64, -1n],
    [u64, 2n ** 64n],
    [text(4), "abcd"],
    [text(4), "a\0b"],
    [text(4), "äö"],
    [octets(6), Buffer.alloc(5)],
    [array(u32, 4), [1, 2, 3]],
  ] as const)("refuse values that they cannot hold (%#)", (field, value) => {
    expect(() => (field as Field<unknown>).write(value)).toThrow(
      expect.objectContaining({ code: "invalid-request" }),
    );
  });
});
