import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { decodeCall, decodeRequest } from "./messages.ts";
import { framesOf, muxFrames } from "./mux.ts";
import { encodeMessage, type TtrpcMessage, ttrpcMessages } from "./ttrpc.ts";

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));
const message: fc.Arbitrary<TtrpcMessage> = fc.record({
  type: fc.constantFrom(1, 2, 3),
  stream: fc.integer({ min: 1, max: 0xffff_ffff }),
  data: bytes(60),
});

/** What a reader makes of a stream that comes in pieces of these sizes. */
function read(stream: Buffer, sizes: readonly number[]): readonly TtrpcMessage[] {
  const frames = muxFrames();
  const messages = ttrpcMessages();
  const got: TtrpcMessage[] = [];
  for (let at = 0, piece = 0; at < stream.length; piece += 1) {
    const size = sizes[piece % sizes.length] ?? 1;
    for (const { connection, payload } of frames.push(stream.subarray(at, at + size)))
      if (connection === 1) got.push(...messages.push(payload));
    at += size;
  }
  return got;
}

describe("NRI's multiplexer", () => {
  it("has a header with connection and length, and ttrpc one with length, stream and type", () => {
    const encoded = framesOf(2, encodeMessage({ type: 1, stream: 5, data: Buffer.from("abc") }));
    expect(encoded.toString("hex")).toBe("000000020000000d00000003000000050100616263");
  });

  it.each([
    [0, [10]],
    [4_086, [4_096]],
    [4_087, [4_096, 1]],
    [70_000, [4_096, 65_914]],
    [4 * 1024 * 1024, [4_096, 4_190_218]],
  ])("cuts a message with %d bytes of data as the runtime's reader needs it", (size, expected) => {
    const sent = { type: 1, stream: 1, data: Buffer.alloc(size, 7) };
    const frames = [...muxFrames().push(framesOf(1, encodeMessage(sent)))];
    expect(frames.map(({ payload }) => payload.length)).toEqual(expected);
    const messages = ttrpcMessages();
    const got = frames.flatMap(({ payload }) => [...messages.push(payload)]);
    expect(got.map(({ type, stream, data }) => [type, stream, data.equals(sent.data)])).toEqual([
      [1, 1, true],
    ]);
  });

  it("parses input that is split or coalesced at any byte, in frames and between them (NRI 3)", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 8 }), sizes, sizes, (sent, inFrames, pieces) => {
        const whole = Buffer.concat(sent.map(encodeMessage));
        const parts: Buffer[] = [];
        for (let at = 0, index = 0; at < whole.length; index += 1) {
          const size = inFrames[index % inFrames.length] ?? 1;
          // A frame of a connection that does not exist is to be ignored wherever it comes.
          parts.push(framesOf(1, whole.subarray(at, at + size)), framesOf(9, Buffer.from("noise")));
          at += size;
        }
        expect(read(Buffer.concat(parts), pieces)).toEqual(sent);
      }),
    );
  });

  it("refuses a frame or a message that is longer than any, before it is held", () => {
    const frame = Buffer.alloc(8);
    frame.writeUInt32BE(4 * 1024 * 1024 + 11, 4);
    expect(() => [...muxFrames().push(frame)]).toThrow(
      "runtime-protocol: the container runtime sent a frame",
    );
    const header = Buffer.alloc(10);
    header.writeUInt32BE(4 * 1024 * 1024 + 1, 0);
    expect(() => [...ttrpcMessages().push(header)]).toThrow("runtime-protocol: the container runtime sent a");
  });

  it("meets any bytes with messages or a Failure", () => {
    fc.assert(
      fc.property(
        bytes(300),
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1 }),
        (noise, sizes) => {
          try {
            read(noise, sizes);
          } catch (error) {
            expect(error).toBeInstanceOf(Failure);
          }
        },
      ),
    );
  });
});

describe("a call", () => {
  const methods = fc.constantFrom(
    ...[
      "Configure",
      "Synchronize",
      "RunPodSandbox",
      "StateChange",
      "Shutdown",
      "constructor",
      "__proto__",
      "",
    ],
  );

  it("of any bytes is decoded or refused", () => {
    const valid = [0x0a, 0x10, 0x12, 0x42, 0x08, 0x04, 0x2a, 0x00];
    const noise = fc.array(fc.oneof(fc.constantFrom(...valid), fc.integer({ min: 0, max: 255 })), {
      maxLength: 80,
    });
    fc.assert(
      fc.property(methods, noise, (method, array) => {
        for (const decode of [(from: Buffer) => decodeCall(method, from), decodeRequest]) {
          try {
            decode(Buffer.from(array));
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ["Synchronize", Buffer.from([0x0a, 0x00])],
    ["StateChange", Buffer.from([0x12, 0x00])],
  ])("of %s with more pods than any node has is refused before they are made", (method, pod) => {
    const payload = Buffer.concat(Array.from({ length: 200_000 }, () => pod));
    expect(() => decodeCall(method, payload)).toThrow("more than 100000 fields");
  });
});
