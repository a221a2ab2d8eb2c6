import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { Debouncer } from "./debouncer.ts";

let clock: ManualClock;
let stop: AbortController;
/** When it acted. */
let acts: number[];

beforeEach(() => {
  clock = new ManualClock();
  stop = new AbortController();
  acts = [];
});

const debouncer = (act: () => unknown = () => acts.push(clock.now())) =>
  new Debouncer({ act, settleMs: 50, quietMs: 1_000, clock, signal: stop.signal });

describe("a debouncer", () => {
  it("acts once for calls close together", async () => {
    const one = debouncer();
    one.call();
    await clock.advance(30);
    one.call();
    await clock.advance(5_000);
    expect(acts).toEqual([50]);
  });

  it("waits a minimum time between two actions, then debounces again", async () => {
    const one = debouncer();
    one.call();
    await clock.advance(100);
    one.call();
    one.call();
    await clock.advance(5_000);
    expect(acts).toEqual([50, 1_100]);
    one.call();
    await clock.advance(50);
    expect(acts).toEqual([50, 1_100, 5_150]);
  });

  it("waits no minimum time after an action that found nothing to do", async () => {
    const one = debouncer(() => acts.push(clock.now()) > 1);
    one.call();
    await clock.advance(60);
    one.call();
    await clock.advance(60);
    expect(acts).toEqual([50, 110]);
  });

  it("does not act once its signal has fired", async () => {
    const one = debouncer();
    one.call();
    stop.abort();
    one.call();
    await clock.advance(5_000);
    expect(acts).toEqual([]);
    expect(clock.pending).toEqual([]);
  });
});
