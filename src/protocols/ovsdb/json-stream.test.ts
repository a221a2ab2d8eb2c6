import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { JsonStream } from "./json-stream.ts";

const container = fc.jsonValue().map((value) => ({ value }));

describe("a stream of JSON values", () => {
  it("gives back every value wherever the bytes are cut", () => {
    fc.assert(
      fc.property(
        fc.array(container),
        fc.array(fc.nat(60), { minLength: 1 }),
        fc.constantFrom("", " ", "\n"),
        (values, cuts, gap) => {
          const bytes = Buffer.from(values.map((value) => JSON.stringify(value)).join(gap));
          const stream = new JsonStream({ bytes: 1e6 });
          const seen: unknown[] = [];
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            const length = 1 + (cuts[turn % cuts.length] ?? 0);
            seen.push(...stream.push(bytes.subarray(at, at + length)));
            at += length;
          }
          expect(seen).toEqual(values.map((value) => JSON.parse(JSON.stringify(value))));
        },
      ),
    );
  });

  it("keeps a character whose bytes come one by one", () => {
    const bytes = Buffer.from('{"name":"grüße 🚀 \\" }{"}');
    const stream = new JsonStream({ bytes: 1000 });
    const seen = [...bytes].flatMap((byte) => [...stream.push(Buffer.from([byte]))]);
    expect(seen).toEqual([{ name: 'grüße 🚀 " }{' }]);
  });

  it("refuses a value longer than the bound, even before its end is there", () => {
    const stream = new JsonStream({ bytes: 10 });
    expect([...stream.push(Buffer.from("[1,2,3,4]"))]).toEqual([[1, 2, 3, 4]]);
    expect(() => [...stream.push(Buffer.from('["abcdefghijkl'))]).toThrow("more than 10 bytes");
  });

  it.each(["hello", "}", '{"a":}', "[1}", '{"a" 1}', "HTTP/1.1 400 Bad Request"])("refuses %s", (text) => {
    expect(() => [...new JsonStream({ bytes: 1000 }).push(Buffer.from(text))]).toThrow(Failure);
  });

  it("refuses bytes that are not UTF-8", () => {
    const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]);
    expect(() => [...new JsonStream({ bytes: 1000 }).push(bytes)]).toThrow("not JSON");
  });

  it("either gives values or throws a Failure, whatever comes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array()), (chunks) => {
        const stream = new JsonStream({ bytes: 200 });
        try {
          for (const chunk of chunks) for (const _ of stream.push(Buffer.from(chunk)));
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });

  it("refuses a value that is nested too deep, or has too many parts, before its end is there", () => {
    const bounds = { depth: 3, values: 4 };
    expect([...new JsonStream(bounds).push(Buffer.from('[[["[[[[,,,,"]],1]'))]).toEqual([
      [[["[[[[,,,,"]], 1],
    ]);
    expect(() => [...new JsonStream(bounds).push(Buffer.from("[[[["))]).toThrow("deeper than 3");
    expect(() => [...new JsonStream(bounds).push(Buffer.from("[1,2,3,4,5,6"))]).toThrow("more than 4 values");
  });
});
