import fc from "fast-check";
import { expect, it } from "vitest";
import { splitJsonStream } from "./json-stream.ts";

it("finds the objects of a stream again, however they are printed", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          fc.dictionary(fc.string(), fc.jsonValue()),
          fc.constantFrom(0, 2),
          fc.constantFrom("", "\n"),
        ),
      ),
      (objects) => {
        const text = objects
          .map(([value, indent, gap]) => JSON.stringify(value, null, indent) + gap)
          .join("");
        const expected = objects.map(([value]) => JSON.parse(JSON.stringify(value)) as unknown);
        expect(splitJsonStream(text).map((part) => JSON.parse(part) as unknown)).toEqual(expected);
      },
    ),
  );
});

it.each(["{", '{"a": "', "}{", "x", "[[1]", '{"a":1} x'])(
  "returns unchanged what is not closed: %s",
  (text) => {
    expect(splitJsonStream(text).join("")).toBe(text);
  },
);
