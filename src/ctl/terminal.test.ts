import { describe, expect, it } from "vitest";
import { age, openScreen, short, wrap } from "./terminal.ts";

describe("what people read", () => {
  it.each([
    [0, "0s"],
    [59_999, "59s"],
    [61_000, "1m1s"],
    [3_600_000, "1h"],
    [3_660_000, "1h1m"],
    [11 * 3_600_000 + 5, "11h"],
    [90_000_000, "1d1h"],
    [864_000_000, "10d"],
    [-5, "0s"],
  ])("an age of %i ms is %s", (ms, text) => expect(age(ms)).toBe(text));

  it.each([
    [0, "0"],
    [999.4, "999"],
    [999.6, "1.0k"],
    [1_234, "1.2k"],
    [999_960, "1.0M"],
    [14_880_000, "14.9M"],
    [2e10, "20.0G"],
  ])("%f is %s", (value, text) => expect(short(value)).toBe(text));

  it("is broken at blanks, and a word that is too long stays whole", () => {
    expect(wrap("one two /a/very/long/path three", 8)).toEqual(["one two", "/a/very/long/path", "three"]);
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

  it("is as wide as the terminal, and 80 columns without one", () => {
    expect(openScreen({ isTTY: true, columns: 120, write: () => true }, {}).columns).toBe(120);
    expect(openScreen({ columns: 120, write: () => true }, {}).columns).toBe(80);
    expect(openScreen({ isTTY: true, columns: 0, write: () => true }, {}).columns).toBe(80);
    expect(openScreen({ isTTY: true, columns: 20, write: () => true }, {}).columns).toBe(40);
  });
});
