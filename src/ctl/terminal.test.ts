import { describe, expect, it } from "vitest";
import { hang, openScreen, short, wrap } from "./terminal.ts";

describe("what people read", () => {
  it.each([
    [0, "0"],
    [99_999, "99999"],
    [123_456, "123.5K"],
    [999_960, "1M"],
    [14_880_000, "14.9M"],
    [2e10, "20B"],
  ])("a count of %i is %s", (value, text) => expect(short(value)).toBe(text));

  it("is broken at blanks, and a word that is too long stays whole", () => {
    expect(wrap("one two /a/very/long/path three", 8)).toEqual(["one two", "/a/very/long/path", "three"]);
  });

  it("hangs below its head", () => {
    expect(hang({ columns: 12 }, 4, "no: ", "one two three")).toEqual(["no: one two", "    three"]);
  });

  it.each([
    ["a terminal", true, {}, true],
    ["no terminal", undefined, {}, false],
    ["NO_COLOR", true, { NO_COLOR: "1" }, false],
    ["an empty NO_COLOR, which means nothing", true, { NO_COLOR: "" }, true],
    ["a dumb terminal", true, { TERM: "dumb" }, false],
  ])("is in colour or not on %s", (_, isTTY, env, colour) => {
    expect(openScreen({ isTTY, columns: 120, write: () => true }, env).colour).toBe(colour);
  });

  it("is as wide as the terminal, and nothing is cut without one", () => {
    expect(openScreen({ isTTY: true, columns: 120, write: () => true }, {}).columns).toBe(120);
    expect(openScreen({ columns: 120, write: () => true }, {}).columns).toBe(Number.POSITIVE_INFINITY);
    expect(openScreen({ isTTY: true, columns: 0, write: () => true }, {}).columns).toBe(80);
    expect(openScreen({ isTTY: true, columns: 20, write: () => true }, {}).columns).toBe(40);
  });
});
