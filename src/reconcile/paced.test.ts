import { describe, expect, it } from "vitest";
import type { Clock } from "../sync/clock.ts";
import { Paced } from "./paced.ts";

/** A clock whose sleeps end when the test says so. */
function heldClock() {
  const sleeps: { readonly ms: number; readonly end: () => void }[] = [];
  const clock: Clock = {
    now: () => 0,
    monotonic: () => 0,
    sleep: (ms, signal) =>
      new Promise((end, reject) => {
        sleeps.push({ ms, end });
        signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
      }),
  };
  const next = async () => {
    await expect.poll(() => sleeps.length).toBeGreaterThan(0);
    const sleep = sleeps.shift();
    sleep?.end();
    return sleep?.ms;
  };
  return { clock, sleeps, next };
}

describe("what is paced", () => {
  it("is done once for all calls that come together, and not again before its time", async () => {
    const { clock, sleeps, next } = heldClock();
    let acts = 0;
    const signal = new AbortController().signal;
    const paced = new Paced({ act: () => acts++, settleMs: 10, quietMs: 100, clock, signal });
    for (let call = 0; call < 5; call++) paced.call();
    expect(acts).toBe(0);
    expect(await next()).toBe(10);
    await expect.poll(() => acts).toBe(1);
    paced.call();
    expect(acts).toBe(1);
    expect(await next()).toBe(100);
    expect(await next()).toBe(10);
    await expect.poll(() => acts).toBe(2);
    expect(await next()).toBe(100);
    // Nobody has called: it rests.
    await new Promise((resolve) => setImmediate(resolve));
    expect(sleeps).toEqual([]);
    paced.call();
    expect(await next()).toBe(10);
    await expect.poll(() => acts).toBe(3);
  });

  it("is not done any more once it is over", async () => {
    const { clock, sleeps } = heldClock();
    const over = new AbortController();
    let acts = 0;
    const paced = new Paced({ act: () => acts++, settleMs: 10, quietMs: 100, clock, signal: over.signal });
    paced.call();
    over.abort();
    await new Promise((resolve) => setImmediate(resolve));
    expect([acts, sleeps.length]).toEqual([0, 1]);
  });
});
