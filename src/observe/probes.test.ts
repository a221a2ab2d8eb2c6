import { describe, expect, it } from "vitest";
import { Heartbeat, runChecks } from "./probes.ts";

describe("a heartbeat", () => {
  it("finds a loop that was silent for too long, and is content again at its next beat", async () => {
    let now = 5_000;
    const heartbeat = new Heartbeat(() => now);
    const probe = () => runChecks([heartbeat.check("reconciler", 90_000)], AbortSignal.timeout(20_000));
    now += 90_000;
    expect(await probe()).toEqual({ ok: true, text: "ok\nreconciler: ok\n" });
    now += 1_000;
    expect(await probe()).toEqual({
      ok: false,
      text: "not ok\nreconciler: NOT OK, no progress for 91 s, 90 s are allowed\n",
    });
    heartbeat.beat();
    expect(await probe()).toMatchObject({ ok: true });
  });
});

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
