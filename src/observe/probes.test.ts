import { describe, expect, it } from "vitest";
import { runChecks } from "./probes.ts";

describe("checks", () => {
  it("report one that throws, rejects or hangs", async () => {
    const timeUp = new AbortController();
    const hangs = {
      name: "hangs",
      problem: () => {
        setImmediate(() => timeUp.abort());
        return new Promise<undefined>(() => undefined);
      },
    };
    const throws = {
      name: "throws",
      problem: () => {
        throw new Error("torn");
      },
    };
    const rejects = { name: "rejects", problem: () => Promise.reject(new Error("gone")) };
    const fine = { name: "fine", problem: () => undefined };
    const verdict = await runChecks([fine, throws, rejects, hangs], timeUp.signal);
    expect(verdict.ok).toBe(false);
    expect(verdict.text.split("\n").slice(1, 5)).toEqual([
      "fine: ok",
      "throws: NOT OK, torn",
      "rejects: NOT OK, gone",
      "hangs: NOT OK, no answer in time",
    ]);
  });
});
