import { describe, expect, it } from "vitest";
import { runChecks } from "./checks.ts";
import { Heartbeats } from "./heartbeats.ts";

describe("heartbeats", () => {
  it("finds the loop that was silent for too long, and forgives it at its next sign of life", async () => {
    let now = 5_000;
    const heartbeats = new Heartbeats(() => now);
    const beat = heartbeats.expect("reconciler", () => 90_000);
    heartbeats.expect("other", () => 1_000_000);
    const look = () => runChecks(heartbeats.checks(), AbortSignal.timeout(20_000));
    now += 90_000;
    expect(await look()).toEqual({ ok: true, text: "ok\nreconciler: ok\nother: ok\n" });
    now += 1_000;
    expect(await look()).toEqual({
      ok: false,
      text: "not ok\nreconciler: NOT OK, gave no sign of life for 91 s, 90 s are allowed\nother: ok\n",
    });
    beat();
    expect(await look()).toMatchObject({ ok: true });
  });
});

describe("checks", () => {
  it("take one that throws, rejects or hangs for wrong, each in its own words", async () => {
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
