import { describe, expect, it } from "vitest";
import { orAborted } from "./or-aborted.ts";

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

  it("rejects with the signal's reason where nothing else is asked for", async () => {
    const pending = new Promise<never>(() => undefined);
    await expect(orAborted(pending, AbortSignal.abort(new Error("went home")))).rejects.toThrow("went home");
  });

  it("leaves no rejection behind that nobody handles", async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    await expect(orAborted(promise, AbortSignal.abort(), tooLate)).rejects.toThrow("too late");
    reject(new Error("nobody waits any more")); // an unhandled rejection fails the run
    await new Promise((resolve) => setImmediate(resolve));
  });
});
