import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { readJson, splitJsonStream } from "./read-json.ts";

const read = (text: string) =>
  readJson(text, { schema: z.unknown(), code: "invalid-vmi", where: "a test", fix: "nothing" });

describe("readJson", () => {
  it("counts no value in a string", () => {
    const text = JSON.stringify({ a: `${"[{,:".repeat(100_000)}"\\` });
    expect(read(text)).toEqual(JSON.parse(text));
  });

  it.each([
    ["too many values", `[${"1,".repeat(60_000)}1]`, "50000 values"],
    ["too many levels", `${"[".repeat(1_000_000)}`, "100 levels"],
    ["too many objects", `[${"{},".repeat(60_000)}{}]`, "50000 values"],
    ["a string that doesn't end", `["${"\\".repeat(1001)}`, "not JSON"],
    ["nothing", "", "not JSON"],
  ])("refuses %s", (_name, text, words) => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ code: "invalid-vmi", message: expect.stringContaining(words) }),
    );
  });
});

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
