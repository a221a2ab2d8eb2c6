import { describe, expect, it } from "vitest";
import { drawLines, escapeHtml, withUnit } from "./draw-panel.ts";

const frame = { width: 400, height: 200, start: 0, end: 100, gapSeconds: 12, unit: "none" };

describe("a panel of the preview", () => {
  it("has a gap where there was no answer, and none where there was", () => {
    const line = (...seconds: number[]) => ({ name: "a", points: seconds.map((at) => [at, 1] as const) });
    const steps = (...seconds: number[]) =>
      /<path d="([^"]+)"/.exec(drawLines([line(...seconds)], frame))?.[1];
    expect(steps(10, 20, 30)?.replace(/[^ML]/g, "")).toBe("MLL");
    expect(steps(20, 30, 60, 70)?.replace(/[^ML]/g, "")).toBe("MLML");
  });

  it("says so where there is nothing, and escapes what others have named", () => {
    expect(drawLines([], frame)).toContain("no data");
    expect(drawLines([{ name: "<b>", points: [] }], frame)).toContain("&lt;b>");
    expect(escapeHtml("a & b")).toBe("a &amp; b");
  });

  it.each([
    [0.125, "percentunit", "13 %"],
    [93_000_000, "bytes", "89 MiB"],
    [0.0042, "s", "4.2 ms"],
    [14.37, "s", "14.4 s"],
    [1_300_000_000, "bps", "1.3 Gb/s"],
    [0.12, "ops", "0.12 /s"],
    [3, "none", "3"],
  ])("writes %d as %s", (value, unit, text) => {
    expect(withUnit(value, unit)).toBe(text);
  });
});
