import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

/**
 * The same picture in fewer bytes: a browser's encoder is made for speed. Only what screenshots are, 8-bit RGB or RGBA
 * without interlacing and nowhere transparent (PNG, W3C, third edition).
 */
export function smallerPng(png: Buffer): Buffer {
  const chunks = readChunks(png);
  const header = chunks.find(({ type }) => type === "IHDR")?.data ?? Buffer.alloc(13);
  const [width, height, depth, colour] = [
    header.readUInt32BE(0),
    header.readUInt32BE(4),
    header[8],
    header[9],
  ];
  if (depth !== 8 || (colour !== 2 && colour !== 6))
    throw new Error(`PNG of depth ${depth}, colour ${colour}`);
  const channels = colour === 6 ? 4 : 3;
  const packed = Buffer.concat(chunks.filter(({ type }) => type === "IDAT").map(({ data }) => data));
  const rows = unfilter(inflateSync(packed), width * channels, height, channels);
  const { palette, indexed } = toPalette(rows, channels);
  const lines = Array.from({ length: height }, (_, y) =>
    Buffer.concat([Buffer.from([0]), indexed.subarray(y * width, (y + 1) * width)]),
  );
  const indexedHeader = Buffer.from(header);
  indexedHeader[9] = 3;
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", indexedHeader),
    chunk("PLTE", palette),
    chunk("IDAT", deflateSync(Buffer.concat(lines), { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** The most frequent 256 colours, and for each pixel the nearest of them: the others are edges of letters. */
function toPalette(rows: Buffer, channels: number): { readonly palette: Buffer; readonly indexed: Buffer } {
  const pixels = rows.length / channels;
  const counts = new Map<number, number>();
  const colourAt = (pixel: number) => rows.readUIntBE(pixel * channels, 3);
  for (let pixel = 0; pixel < pixels; pixel += 1) {
    counts.set(colourAt(pixel), (counts.get(colourAt(pixel)) ?? 0) + 1);
  }
  const kept = [...counts].sort(([, one], [, other]) => other - one).slice(0, 256);
  const colours = kept.map(([colour]) => colour);
  const indexOf = new Map(colours.map((colour, index) => [colour, index]));
  for (const colour of counts.keys()) if (!indexOf.has(colour)) indexOf.set(colour, nearest(colours, colour));
  const palette = Buffer.alloc(colours.length * 3);
  for (const [index, colour] of colours.entries()) palette.writeUIntBE(colour, index * 3, 3);
  const indexed = Buffer.alloc(pixels);
  for (let pixel = 0; pixel < pixels; pixel += 1) indexed[pixel] = indexOf.get(colourAt(pixel)) ?? 0;
  return { palette, indexed };
}

function nearest(colours: readonly number[], colour: number): number {
  const part = (of: number, shift: number) => (of >> shift) & 255;
  const distance = (one: number) =>
    [16, 8, 0].reduce((sum, shift) => sum + (part(one, shift) - part(colour, shift)) ** 2, 0);
  const distances = colours.map(distance);
  return distances.indexOf(Math.min(...distances));
}

function readChunks(png: Buffer): readonly { readonly type: string; readonly data: Buffer }[] {
  const chunks: { type: string; data: Buffer }[] = [];
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    chunks.push({
      type: png.toString("latin1", at + 4, at + 8),
      data: png.subarray(at + 8, at + 8 + length),
    });
    at += length + 12;
  }
  return chunks;
}

function unfilter(data: Buffer, stride: number, height: number, channels: number): Buffer {
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const from = y * (stride + 1);
    const to = y * stride;
    for (let x = 0; x < stride; x += 1) {
      const left = x < channels ? 0 : (rows[to + x - channels] ?? 0);
      const up = y === 0 ? 0 : (rows[to + x - stride] ?? 0);
      const corner = x < channels || y === 0 ? 0 : (rows[to + x - stride - channels] ?? 0);
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][data[from] ?? 0] ?? 0;
      rows[to + x] = (data[from + 1 + x] ?? 0) + predicted;
    }
  }
  return rows;
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
