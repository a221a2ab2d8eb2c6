import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as eventLoop } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeApiServer } from "../../test/stand-in/api-server/fake-api-server.ts";
import { at } from "../../test/stand-in/api-server/object-store.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { KubeApi } from "./client.ts";
import { Lease } from "./lease.ts";

/** The default of a lease. */
const RETRY_MS = 2_000;

let directory: string;
let api: FakeApiServer;
let client: KubeApi;
let stop: AbortController;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-lease-"));
  api = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), api.ca);
  client = new KubeApi({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 60_000 });
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

const candidate = (identity: string, clock: ManualClock) =>
  new Lease({ api: client, namespace: "default", name: "ipam", identity, clock });
const spec = (field: string) => at(api.store.all("default/leases")[0], `spec.${field}`);

/** Moves the clock to the next attempt once the one before is over: the server takes as long as it takes. */
async function nextAttempt(clock: ManualClock): Promise<void> {
  const end = AbortSignal.timeout(60_000);
  const isWaiting = () => (clock.pending[0] ?? Number.POSITIVE_INFINITY) <= RETRY_MS;
  while (!isWaiting()) {
    end.throwIfAborted();
    await eventLoop();
  }
  await clock.advance(clock.pending[0] ?? 0);
}

describe("a lease", () => {
  it("is held by one of two, renewed, and given back", async () => {
    const clock = new ManualClock(1_700_000_000_000);
    const [one, other] = [candidate("one", clock), candidate("other", clock)];
    const { signal } = stop;
    expect(await one.tryHold(signal)).toBe(true);
    expect(spec("leaseDurationSeconds")).toBe(15);
    const acquired = spec("acquireTime");
    expect(await other.tryHold(signal)).toBe(false);
    await clock.advance(2_000);
    expect(await one.tryHold(signal)).toBe(true);
    expect([spec("acquireTime"), spec("renewTime")]).toEqual([acquired, "2023-11-14T22:13:22.000000Z"]);
    await other.release(signal);
    expect(spec("holderIdentity")).toBe("one");
    await one.release(signal);
    expect(await other.tryHold(signal)).toBe(true);
    expect([spec("holderIdentity"), spec("leaseTransitions")]).toEqual(["other", 1]);
  });

  it("is taken over a lease's time after the last renewal that was seen, however wrong clocks are", async () => {
    const { signal } = stop;
    const clockAhead = new ManualClock(1_900_000_000_000);
    const ahead = candidate("one", clockAhead);
    await ahead.tryHold(signal);
    const clock = new ManualClock(1_700_000_000_000);
    const other = candidate("other", clock);
    expect(await other.tryHold(signal)).toBe(false);
    await clock.advance(14_000);
    // Its clock is wrong in rate too.
    await clockAhead.advance(1);
    await ahead.tryHold(signal);
    expect(await other.tryHold(signal)).toBe(false);
    await clock.advance(14_999);
    expect(await other.tryHold(signal)).toBe(false);
    await clock.advance(1);
    expect(await other.tryHold(signal)).toBe(true);
  });

  it("goes to one of several that try at the same time", async () => {
    const { signal } = stop;
    const all = Array.from({ length: 8 }, (_, index) => candidate(`${index}`, new ManualClock()));
    const held = await Promise.all(all.map((one) => one.tryHold(signal)));
    expect(held.filter((isHeld) => isHeld)).toHaveLength(1);
    expect(spec("holderIdentity")).toBe(String(held.indexOf(true)));
  });

  it("is led while it is renewed, and not after it could not be renewed in time", async () => {
    const clock = new ManualClock(1_700_000_000_000);
    const log: string[] = [];
    const lead = async (signal: AbortSignal) => {
      log.push("leads");
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      log.push(`stops at ${(clock.monotonic() - 1_700_000_000_000) / 1000} s`);
    };
    const over = candidate("one", clock).run(lead, stop.signal);
    const renewals = () => api.answers.filter((answer) => answer === "PUT 200").length;
    while (renewals() < 3) await nextAttempt(clock);
    api.verbs.delete("update");
    while (log.length < 2) await nextAttempt(clock);
    // The fourth renewal, at 8 s, is the first that fails.
    expect(log).toEqual(["leads", "stops at 18 s"]);
    api.verbs.add("update");
    while (log.length < 3) await nextAttempt(clock);
    expect(log.at(-1)).toBe("leads");
    stop.abort(new Error("stopping"));
    await expect(over).rejects.toThrow("stopping");
    expect(spec("holderIdentity")).toBe("");
  });

  it("is given back when what leads fails", async () => {
    const clock = new ManualClock();
    const failing = async () => {
      throw new Error("a defect");
    };
    await expect(candidate("one", clock).run(failing, stop.signal)).rejects.toThrow("a defect");
    expect(spec("holderIdentity")).toBe("");
    // Nothing renews it any more, which would acquire it again.
    expect(clock.pending).toEqual([]);
  });
});
