import { describe, expect, it } from "vitest";
import { waitUntil } from "../../../../test/machine/wait-until.ts";
import { silentLogger } from "../../../logging/logger.ts";
import type { Clock } from "../../../sync/clock.ts";
import { macTableRefresher } from "./refresh-mac-table.ts";

/** A refresher whose time passes with every message, up to `most` of them. */
function rig(most = Number.POSITIVE_INFINITY) {
  const closing = new AbortController();
  const woken: string[] = [];
  const stopped = Promise.withResolvers<void>();
  const sleeping = { now: 0 };
  const clock: Clock = {
    now: () => 0,
    monotonic: () => 0,
    sleep: async (_, signal) => {
      signal?.throwIfAborted();
      sleeping.now += 1;
      if (woken.length < most) return;
      await stopped.promise;
      signal?.throwIfAborted();
    },
  };
  const state = { isAway: false };
  const wake = async (bridge: string) => {
    if (state.isAway) throw new Error("not reachable");
    woken.push(bridge);
  };
  const refresh = macTableRefresher(wake, { clock, logger: silentLogger, closing: closing.signal });
  const sent = (count: number) =>
    waitUntil(async () => woken.length === count, {
      what: `${count} messages`,
      detail: () => `${woken.length}`,
    });
  return { refresh, woken, state, closing, sent, stopped, sleeping };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

describe("a refresh of a MAC table", () => {
  it("wakes the switch for some seconds, and ends", async () => {
    const { refresh, woken, sent } = rig();
    refresh("br0");
    await sent(250);
    await settled();
    expect(woken).toHaveLength(250);
    expect(new Set(woken)).toEqual(new Set(["br0"]));
    refresh("br0");
    await sent(500);
  });

  it("continues for as long again, not twice as fast, when another guest leaves", async () => {
    const { refresh, woken, sent, stopped } = rig(100);
    refresh("br0");
    await sent(100);
    refresh("br0");
    stopped.resolve();
    await sent(351); // one was on its way
    await settled();
    expect(woken).toHaveLength(351);
  });

  it("ends where the switch does not answer, and starts again with the next guest", async () => {
    const { refresh, woken, state, sent } = rig();
    state.isAway = true;
    refresh("br0");
    await settled();
    expect(woken).toEqual([]);
    state.isAway = false;
    refresh("br0");
    await sent(250);
  });

  it("ends with the switch's connection", async () => {
    const { refresh, woken, closing, sent, stopped, sleeping } = rig(3);
    refresh("br0");
    await sent(3);
    closing.abort();
    stopped.resolve();
    await settled();
    expect(woken).toHaveLength(3);
    expect(sleeping.now).toBe(4);
  });
});
