import { crc32, deflateSync, inflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { smallerPng } from "./smaller-png.ts";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

function chunk(type: string, data: Buffer): Buffer {
  const whole = Buffer.alloc(data.length + 12);
  whole.writeUInt32BE(data.length);
  whole.write(type, 4, "latin1");
  data.copy(whole, 8);
  whole.writeUInt32BE(crc32(whole.subarray(4, data.length + 8)), data.length + 8);
  return whole;
}

function header(width: number, height: number, depth: number, colour: number): Buffer {
  const data = Buffer.alloc(13);
  data.writeUInt32BE(width);
  data.writeUInt32BE(height, 4);
  data[8] = depth;
  data[9] = colour;
  return data;
}

/** RGB of each pixel of a picture with a palette and rows without a filter. */
function pixels(png: Buffer): number[] {
  const chunks = new Map<string, Buffer>();
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const [type, data] = [png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)];
    expect(png.readUInt32BE(at + 8 + length)).toBe(crc32(png.subarray(at + 4, at + 8 + length)));
    chunks.set(type, data);
    at += length + 12;
  }
  const width = chunks.get("IHDR")?.readUInt32BE(0) ?? 0;
  const rows = inflateSync(chunks.get("IDAT") ?? Buffer.alloc(0));
  return [...rows].flatMap((index, at) =>
    at % (width + 1) === 0 ? [] : [chunks.get("PLTE")?.readUIntBE(index * 3, 3) ?? -1],
  );
}

describe("a smaller PNG", () => {
  it("has the same pixels, whatever filters the rows had", () => {
    // Two pixels a row: red and a row's own grey; each row with another filter of the specification's five.
    const rows = [
      [0, 255, 0, 0, 255, 16, 16, 16, 255],
      [1, 255, 0, 0, 255, 33, 32, 32, 0],
      [2, 0, 0, 0, 0, 16, 16, 16, 0],
      [3, 128, 0, 0, 128, 169, 40, 40, 0],
      [4, 0, 0, 0, 0, 16, 16, 16, 0],
    ];
    const png = Buffer.concat([
      SIGNATURE,
      chunk("IHDR", header(2, rows.length, 8, 6)),
      chunk("IDAT", deflateSync(Buffer.from(rows.flat()))),
      chunk("IEND", Buffer.alloc(0)),
    ]);
    const [red, grey] = [0xff0000, (level: number) => level * 0x010101];
    expect(pixels(smallerPng(png))).toEqual([16, 32, 48, 64, 80].flatMap((level) => [red, grey(level)]));
  });

  it("is refused for what screenshots are not", () => {
    const png = Buffer.concat([SIGNATURE, chunk("IHDR", header(1, 1, 16, 2))]);
    expect(() => smallerPng(png)).toThrow("PNG of depth 16, colour 2");
  });
});
