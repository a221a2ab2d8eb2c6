import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { within } from "./within.ts";

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

  it("fires when its time is over, as AbortSignal.timeout does, and leaves nothing at the other one", async () => {
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
