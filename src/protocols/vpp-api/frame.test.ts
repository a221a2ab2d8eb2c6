import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { frame, vppFrames } from "./frame.ts";

const messages = fc.array(
  fc.uint8Array({ minLength: 2, maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  { maxLength: 10 },
);

describe("frames of VPP's socket", () => {
  it("give the same messages in whatever pieces they come", () => {
    fc.assert(
      fc.property(messages, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (sent, sizes) => {
        const bytes = Buffer.concat(sent.map(frame));
        const stream = vppFrames(100);
        const got: Buffer[] = [];
        for (let at = 0, piece = 0; at < bytes.length; piece += 1) {
          const size = sizes[piece % sizes.length] ?? 1;
          got.push(...stream.push(bytes.subarray(at, at + size)));
          at += size;
        }
        expect(got).toEqual(sent);
      }),
    );
  });

  it("have a header of 16 bytes with the length at the ninth", () => {
    expect(frame(Buffer.from("abc")).toString("hex")).toBe("00000000000000000000000300000000616263");
  });

  it("do not care what VPP has in the header beside the length", () => {
    const bytes = frame(Buffer.from("abc"));
    bytes.fill(0xff, 0, 8).fill(0xff, 12, 16);
    expect([...vppFrames(100).push(bytes)]).toEqual([Buffer.from("abc")]);
  });

  it.each([0, 1, 101, 0xffff_ffff])("refuse a length that no message has: %d", (length) => {
    const bytes = Buffer.alloc(16);
    bytes.writeUInt32BE(length, 8);
    expect(() => [...vppFrames(100).push(bytes)]).toThrow(Failure);
  });

  it("take a large message in small pieces", () => {
    const bytes = frame(Buffer.alloc(4 * 1024 * 1024, 1));
    const stream = vppFrames(bytes.length);
    const got: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += 1024) got.push(...stream.push(bytes.subarray(at, at + 1024)));
    expect(got).toHaveLength(1);
  });
});
