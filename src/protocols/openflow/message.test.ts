import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeMessage, MESSAGE, openflowMessages } from "./message.ts";

describe("a stream of OpenFlow messages", () => {
  it("gives the same messages however the chunks are cut", () => {
    const message = fc.record({
      version: fc.integer({ min: 0, max: 255 }),
      type: fc.integer({ min: 0, max: 255 }),
      xid: fc.integer({ min: 0, max: 0xffffffff }),
      body: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    });
    fc.assert(
      fc.property(fc.array(message), fc.array(fc.integer({ min: 1, max: 30 })), (messages, cuts) => {
        const bytes = Buffer.concat(
          messages.map(({ version, type, xid, body }) => encodeMessage(version, type, xid, body)),
        );
        const stream = openflowMessages();
        const seen = [];
        let at = 0;
        for (const cut of cuts) {
          seen.push(...stream.push(bytes.subarray(at, at + cut)));
          at += cut;
        }
        seen.push(...stream.push(bytes.subarray(at)));
        expect(seen).toEqual(messages);
      }),
    );
  });

  it("holds back a message whose length promises more", () => {
    const stream = openflowMessages();
    const bytes = encodeMessage(5, MESSAGE.hello, 1, Buffer.alloc(4));
    expect([...stream.push(bytes.subarray(0, 11))]).toEqual([]);
    expect([...stream.push(bytes.subarray(11))]).toHaveLength(1);
  });

  it.each([0, 1, 7])("refuses a message of %i bytes, too short for its own header", (length) => {
    const bytes = encodeMessage(5, MESSAGE.hello, 1, Buffer.alloc(0));
    bytes.writeUInt16BE(length, 2);
    expect(() => [...openflowMessages().push(bytes)]).toThrow(`a message says that it has ${length} bytes`);
  });
});
