import { describe, expect, it } from "vitest";
import { recap } from "./recap.ts";

const RESET = "\u001b[39m";
const RED = "\u001b[31m";
const many = (line: string) => `${line}\n`.repeat(1_000);

describe("what the end of a run repeats of a part that failed", () => {
  it.each([
    ["failed tests", `${RED}⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯${RESET}\n\n FAIL  a.test.ts > b`],
    ["failed files", "⎯⎯⎯⎯⎯⎯ Failed Suites 1 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  a.test.ts > b"],
    ["errors outside of the tests", "⎯⎯⎯⎯⎯⎯ Unhandled Errors ⎯⎯⎯⎯⎯⎯\n\n FAIL  a.test.ts > b"],
  ])("is vitest's reasons, where it tells of %s", (_what, reasons) => {
    const told = recap(`${many("✓ passed")}${reasons}\n`);
    expect(told).toMatch(/^ FAIL {2}a\.test\.ts > b\n⎯+ (Failed|Unhandled) .* FAIL {2}a\.test\.ts > b$/su);
    expect(told).not.toContain(RED);
  });

  it("is the first of many reasons", () => {
    const told = recap(`✓ passed\n⎯⎯ Failed Tests 9 ⎯⎯\nthe first\n${many("another")}`);
    expect(told.slice(0, 40)).toBe("⎯⎯ Failed Tests 9 ⎯⎯\nthe first\nanother\na");
    expect(told.length).toBeLessThan(3_100);
    expect(told.endsWith("…")).toBe(true);
  });

  it("is the last lines of anything else", () => {
    const told = recap(`${many("· round")}vm3: lost its port\n`);
    expect(told).toMatch(/^…\n.*vm3: lost its port$/su);
    expect(told.length).toBeLessThan(3_100);
    expect(recap("short\n")).toBe("short");
    expect(recap("")).toBe("");
  });
});
