import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { orAborted, whenAborted, within } from "./deadlines.ts";

const tooLate = () => new Error("too late");

describe("waiting for a promise or a signal", () => {
  it("gives what the promise gives", async () => {
    const { signal } = new AbortController();
    expect(await orAborted(Promise.resolve(7), signal, tooLate)).toBe(7);
    await expect(orAborted(Promise.reject(new Error("no")), signal, tooLate)).rejects.toThrow("no");
  });

  it("rejects when the signal fires, before or during the wait", async () => {
    const pending = new Promise<never>(() => undefined);
    await expect(orAborted(pending, AbortSignal.abort(), tooLate)).rejects.toThrow("too late");
    const giveUp = new AbortController();
    const waiting = orAborted(pending, giveUp.signal, tooLate);
    giveUp.abort();
    await expect(waiting).rejects.toThrow("too late");
  });

  it("rejects with the signal's reason by default", async () => {
    const pending = new Promise<never>(() => undefined);
    await expect(orAborted(pending, AbortSignal.abort(new Error("stopped")))).rejects.toThrow("stopped");
  });

  it("leaves no unhandled rejection", async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    await expect(orAborted(promise, AbortSignal.abort(), tooLate)).rejects.toThrow("too late");
    reject(new Error("no one waits for it")); // an unhandled rejection fails the run
    await new Promise((resolve) => setImmediate(resolve));
  });
});

it("calls once when the signal fires, and at once where it has fired", () => {
  const ending = new AbortController();
  let calls = 0;
  whenAborted(ending.signal, () => calls++);
  expect(calls).toBe(0);
  ending.abort();
  expect(calls).toBe(1);
  whenAborted(ending.signal, () => calls++);
  expect(calls).toBe(2);
});

describe("a signal that fires within a time", () => {
  it("fires with the other one, for its reason, also where that had fired before", () => {
    const stop = new AbortController();
    const before = within(stop.signal, 60_000);
    expect(before.aborted).toBe(false);
    stop.abort("stopping");
    for (const signal of [before, within(stop.signal, 60_000)]) {
      expect([signal.aborted, signal.reason]).toEqual([true, "stopping"]);
    }
  });

  it("fires when its time is over, as AbortSignal.timeout does, and leaves no listener at the other one", async () => {
    const stop = new AbortController();
    const limits = Array.from({ length: 100 }, () => within(stop.signal, 1));
    await Promise.all(
      limits.map((limit) => new Promise((resolve) => limit.addEventListener("abort", resolve))),
    );
    expect(new Set(limits.map(({ reason }) => reason.name))).toEqual(new Set(["TimeoutError"]));
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
    // Where Node keeps what AbortSignal.any made of it.
    const kept = Object.getOwnPropertySymbols(stop.signal)
      .filter((symbol) => symbol.description === "kDependantSignals")
      .map((symbol) => Reflect.get(stop.signal, symbol));
    expect(kept.filter((one) => one?.size > 0)).toEqual([]);
  });
});
