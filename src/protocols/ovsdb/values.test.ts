import { describe, expect, it } from "vitest";
import * as z from "zod";
import {
  mapValue,
  numberMapShape,
  optionalShape,
  setShape,
  setValue,
  stringMapShape,
  uuidReference,
  uuidShape,
} from "./values.ts";

const ID = "2b30e0d1-d551-4ae5-aca7-6f32177eb294";

describe("values of RFC 7047", () => {
  it("reads a set of none, one (bare) and many", () => {
    const shape = setShape(z.string());
    expect(shape.parse(["set", []])).toEqual([]);
    expect(shape.parse("one")).toEqual(["one"]);
    expect(shape.parse(["set", ["one", "two"]])).toEqual(["one", "two"]);
  });

  it("distinguishes a bare reference from a set of references", () => {
    const shape = setShape(uuidShape);
    expect(shape.parse(["uuid", ID])).toEqual([ID]);
    expect(
      shape.parse([
        "set",
        [
          ["uuid", ID],
          ["uuid", ID],
        ],
      ]),
    ).toEqual([ID, ID]);
  });

  it("reads an optional column, and refuses two elements in it", () => {
    const shape = optionalShape(z.number());
    expect(shape.parse(["set", []])).toBeUndefined();
    expect(shape.parse(7)).toBe(7);
    expect(shape.safeParse(["set", [1, 2]]).success).toBe(false);
  });

  it("reads a map with a key that would reach an object's prototype", () => {
    const map = stringMapShape.parse([
      "map",
      [
        ["__proto__", "x"],
        ["mode", "client"],
      ],
    ]);
    expect([...map]).toEqual([
      ["__proto__", "x"],
      ["mode", "client"],
    ]);
  });

  it.each([["map"], [["map", [["a"]]]], [["map", [["a", 1]]]], [["set", 1]], [null], [{}]])(
    "refuses %j as a map",
    (value) => {
      expect(stringMapShape.safeParse(value).success).toBe(false);
    },
  );

  it("reads a map of integers", () => {
    const map = numberMapShape.parse([
      "map",
      [
        ["__proto__", 1],
        ["rx_packets", 2 ** 40],
      ],
    ]);
    expect([...map]).toEqual([
      ["__proto__", 1],
      ["rx_packets", 2 ** 40],
    ]);
    expect(numberMapShape.parse(["map", []]).size).toBe(0);
  });

  it.each([
    ["map"],
    [["map", [["a"]]]],
    [["map", [["a", "1"]]]],
    [["map", [[1, 1]]]],
    [["set", []]],
    [null],
    [{}],
  ])("refuses %j as a map of integers", (value) => {
    expect(numberMapShape.safeParse(value).success).toBe(false);
  });

  it("writes what it reads", () => {
    expect(stringMapShape.parse(mapValue({ a: "b" })).get("a")).toBe("b");
    expect(setShape(uuidShape).parse(setValue([uuidReference(ID)]))).toEqual([ID]);
  });
});
